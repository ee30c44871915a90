// The cheapest way of a worker to a prompt's blocks: what it has, or what it could fetch from a worker that has more.
//
//   matches ──► sources: the deepest holders that serve, of equals the one with the least queued out
//   candidate, as it is ──► with each of the first four that it can fetch from ──► the cheapest of these
//
// A source holds more than the candidate; it need not take requests. What a candidate is still computing for others
// counts as held; a pull fetches those blocks too. The last block is fetched only if some token behind it is computed.
//
// A pair without a rate of its own is priced with means (pair_rates.h). If it is as fast as the fastest known one, it
// may be the best: such a hope is remembered, so that the pair can be measured.
//
// Lives for one decision. O(kMaxListed + equals of the last) once, then one more cost per candidate, and for those that
// may win O(kMaxSources) per candidate where all workers serve each other, and O(kMaxListed) at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

// The best pull over a pair without a rate, were it as fast as the fastest.
struct HopefulPull {
  PairToMeasure pair;
  double cost_seconds = 0;  // of the request with it
};

class Pulls {
 public:
  static constexpr std::size_t kMaxSources = 4;  // that are compared for each candidate
  static constexpr std::size_t kMaxListed = 16;  // of which each candidate's are

  // The arguments outlive it.
  Pulls(const RouteQuery& query, const FleetView& fleet);

  // No candidate can fetch anything.
  [[nodiscard]] bool empty() const { return sources_.empty(); }
  // Makes each the cheapest way. Their workers are in the fleet, and fetch nothing yet. A candidate that would cost
  // more than another one by more than a tie, even if it had all that the deepest source has, stays as it is.
  void Improve(std::vector<Candidate>& candidates);
  [[nodiscard]] const std::optional<HopefulPull>& hope() const { return hope_; }

 private:
  struct Source {
    WorkerSlot slot;
    std::uint32_t block_count = 0;  // that it holds
    double queued_bytes = 0;        // out of it
  };

  void Improve(Candidate& candidate, double bound);
  [[nodiscard]] bool IsBetterHope(double cost_seconds) const {
    return !hope_.has_value() || cost_seconds < hope_->cost_seconds;
  }
  // The pull is over a pair without a rate, and the request costs so much with it.
  void Hope(const PrefixPull& pull, WorkerSlot to, double cost_seconds);

  const RouteQuery& query_;
  const FleetView& fleet_;
  const FleetSpeed speed_;
  std::vector<Source> sources_;  // the best first
  std::optional<HopefulPull> hope_;
};

}  // namespace roost::router

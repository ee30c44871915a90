// The cheapest way of a worker to a prompt's blocks: what it has, or what it could fetch from a worker that has more.
//
//   matches ──► Sources: the deepest holders that serve, of equals the one with the least queued out
//   a worker that lacks blocks ──► with each of the first four that it can fetch from ──► the cheapest of these
//
// Requests, copies and warm-ups choose their source here; they differ in what a pull costs them. A source holds more
// than the worker that fetches; it need not take requests. What a candidate is still computing for others counts as
// held; a pull fetches those blocks too. The last block is fetched only if some token behind it is computed.
//
// A pair without a rate of its own is priced with means (pair_rates.h), and its first pull measures it.
//
// A worker's disk is a source for this worker alone: a restore is priced like a pull that displaces nothing, with the
// rate that the worker tells and behind what this router's requests wait for there. The worker does it unasked, so it
// needs no Hold.
//
// Pulls lives for one decision. O(kMaxListed + equals of the last) once, then one more cost per candidate, and for
// those that may win O(kMaxSources) per candidate where all workers serve each other, and O(kMaxListed) at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

class Sources {
 public:
  static constexpr std::size_t kMaxSources = 4;  // that are compared for each worker
  static constexpr std::size_t kMaxListed = 16;  // of which each worker's are

  // No worker can fetch anything.
  Sources() = default;
  Sources(std::span<const WorkerMatch> matches, const Transfers& transfers);

  [[nodiscard]] bool empty() const { return listed_.empty(); }
  // The most blocks that one holds; not empty.
  [[nodiscard]] std::uint32_t deepest() const { return listed_.front().block_count; }

  // The blocks that a worker could fetch.
  struct Wanted {
    WorkerSlot by;
    std::uint32_t held = 0;    // a source must hold more than these leading ones
    std::uint32_t first = 0;   // from this one on
    std::uint32_t end = 0;     // before this one
    bool from_paused = false;  // also over a pair that has just failed
  };
  // The pull that costs least, if that is less than `least`. `cost_of(pull, least)` may return any cost that is not
  // less than the least so far, once it knows that the pull's is not.
  template <typename CostOf>
  [[nodiscard]] std::optional<PrefixPull> BestSource(const Wanted& wanted, Instant now, double least,
                                                     const CostOf& cost_of) const {
    std::optional<PrefixPull> best;
    std::size_t compared = 0;
    for (const Listed& source : listed_) {
      const std::uint32_t end = std::min(source.block_count, wanted.end);
      if (end <= wanted.held || compared == kMaxSources) break;
      const std::uint32_t count = end - wanted.first;
      const auto offer = transfers_->Offer({.from = source.slot, .to = wanted.by}, count, now);
      if (!offer.has_value() || (offer->is_paused && !wanted.from_paused)) continue;
      ++compared;
      const PrefixPull pull{
          .source = source.slot, .first_block = wanted.first, .block_count = count, .price = offer->price};
      const double cost = cost_of(pull, least);
      if (cost >= least) continue;
      least = cost;
      best = pull;
    }
    return best;
  }

 private:
  struct Listed {
    WorkerSlot slot;
    std::uint32_t block_count = 0;  // that it holds
    double queued_bytes = 0;        // out of it
  };

  const Transfers* transfers_ = nullptr;
  std::vector<Listed> listed_;  // the best first
};

// Makes the candidate a restore from the worker's own disk, if that costs less. O(matches).
void ConsiderRestore(const RouteQuery& query, const WorkerView& worker, const FleetSpeed& speed, Candidate& candidate);

class Pulls {
 public:
  // The arguments outlive it.
  Pulls(const RouteQuery& query, const FleetView& fleet);

  // No candidate can fetch anything.
  [[nodiscard]] bool empty() const { return sources_.empty(); }
  // Makes each the cheapest way. Their workers are in the fleet, and fetch nothing yet. A candidate that would cost
  // more than another one by more than a tie, even if it had all that the deepest source has, stays as it is.
  void Improve(std::vector<Candidate>& candidates);

 private:
  void Improve(Candidate& candidate, double bound);

  const RouteQuery& query_;
  const FleetView& fleet_;
  const FleetSpeed speed_;
  Sources sources_;
};

}  // namespace roost::router

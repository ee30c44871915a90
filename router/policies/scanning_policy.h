// The base of policies that compare all workers. It collects the workers that may take the request, with what each
// holds of the prompt, and the policy picks one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "router/route/policy.h"

namespace roost::router {

// A worker that may take the request.
struct Prospect {
  const WorkerView* worker = nullptr;
  std::uint32_t matched_blocks = 0;
  std::uint32_t matched_tokens = 0;
  std::uint32_t uncached_tokens = 0;
};

class ScanningPolicy : public Policy {
 public:
  ScanningPolicy(std::string_view name, std::uint64_t seed) : name_(name), rng_(seed) {}

  [[nodiscard]] std::string_view name() const final { return name_; }
  [[nodiscard]] std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) final;

 protected:
  struct Pick {
    std::size_t index = 0;  // into the prospects
    DecisionReason reason = DecisionReason::kMinLoad;
  };
  // `prospects` is not empty, and is in no particular order.
  [[nodiscard]] virtual Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                                      const FleetView& fleet) = 0;

  // The index of the prospect with the least `key`; a random one of several equals.
  template <typename Key>
  [[nodiscard]] std::size_t Least(std::span<const Prospect> prospects, Key key) {
    std::size_t least = 0;
    std::uint64_t equals = 1;
    for (std::size_t i = 1; i < prospects.size(); ++i) {
      const auto challenger = key(prospects[i]);
      const auto champion = key(prospects[least]);
      if (challenger < champion) {
        least = i;
        equals = 1;
      } else if (!(champion < challenger) && rng_.Below(++equals) == 0) {
        least = i;
      }
    }
    return least;
  }
  // The prospect with the fewest of this router's requests in flight, the usual fallback.
  [[nodiscard]] std::size_t LeastInFlight(std::span<const Prospect> prospects);

  [[nodiscard]] Rng& rng() { return rng_; }

 private:
  void Gather(const RouteQuery& query, const FleetView& fleet);

  const std::string_view name_;
  Rng rng_;
  std::vector<Prospect> prospects_;             // of the current call
  std::vector<std::uint32_t> matched_by_slot_;  // zero between calls
};

}  // namespace roost::router

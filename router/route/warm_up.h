// Gives a new worker that holds little its share of the requests that no cache helps. Otherwise it would stay cold: the
// others would always be a little cheaper, because they hold a little of everything.
//
//   warming   joined less than kRecentTime ago, and holds less than half of what the mean worker of its fleet holds
//   miss      no candidate holds more than a third of the prompt, so affinity loses nothing
//   share     misses since the worker was first seen warming ÷ workers of the fleet
//
// It costs little: a warming worker does not get a request if, because it has a queue or is slow, the extra cost there
// exceeds what a match of a third would save.
//
// Not thread-safe. State is bounded by slots.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "router/route/policy.h"

namespace roost::router {

class WarmUp {
 public:
  static constexpr std::uint32_t kLeastUsefulPart = 3;  // a match of less than 1/3 of the prompt is a miss

  // The warming candidate that should take the request, or null: then the request goes to `chosen`. Counts the request
  // if it is a miss. O(candidates).
  [[nodiscard]] const Candidate* Choose(const RouteQuery& query, const FleetView& fleet,
                                        const std::vector<Candidate>& candidates, const Candidate& chosen);

 private:
  // For one epoch of a worker.
  struct Share {
    Instant joined_at{};
    std::uint64_t misses_before = 0;  // of its fleet, when it was first seen warming
    std::uint64_t taken = 0;          // misses that were sent to it
  };

  [[nodiscard]] Share& ShareOf(const WorkerView& worker, std::uint64_t misses);

  std::unordered_map<std::uint32_t, std::uint64_t> misses_;  // by fleet number
  std::unordered_map<std::uint32_t, Share> shares_;          // by slot
};

}  // namespace roost::router

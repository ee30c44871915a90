// The workers that are worth a look for a request: those that hold the most of its prompt, and a few of the least
// loaded. Whoever is none of them holds less than the first and waits longer than the second.
//
// O(matches + kMaxHolders · log kMaxHolders), whatever the size of the fleet.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

inline constexpr std::size_t kMaxHolders = 64;       // whose costs are computed, the deepest
inline constexpr std::size_t kKeptHolders = 12;      // of them that are candidates, the cheapest
inline constexpr std::size_t kLeastLoadedCount = 4;  // beside them

// Cheapest first, no worker twice. Empty if and only if no worker of the fleet may take the request.
[[nodiscard]] std::vector<Candidate> FindCandidates(const RouteQuery& query, const FleetView& fleet);

// The decision for the worker in `slot`, which is in the fleet and may take the request, with all that a decision
// reports. It tells kOnlyWorker instead of `reason` if there was no choice.
[[nodiscard]] Decision Decide(const RouteQuery& query, const FleetView& fleet, WorkerSlot slot, DecisionReason reason);

}  // namespace roost::router

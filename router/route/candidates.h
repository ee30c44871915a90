// The workers that a decision compares: those that hold the most of the prompt, and a few of the least loaded. Every
// other worker holds less than the first and waits longer than the second.
//
// O(matches + kMaxHolders · log kMaxHolders), whatever the size of the fleet.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

inline constexpr std::size_t kMaxHolders = 64;       // holders whose cost is computed, the deepest ones
inline constexpr std::size_t kKeptHolders = 12;      // those of them that become candidates, the cheapest ones
inline constexpr std::size_t kLeastLoadedCount = 4;  // and this many of the least loaded

// Cheapest first, no worker twice. Empty if and only if no worker of the fleet may take the request.
[[nodiscard]] std::vector<Candidate> FindCandidates(const RouteQuery& query, const FleetView& fleet);

// The decision for the worker in `slot`, which is in the fleet and may take the request, with all that a decision
// reports. Its reason is kOnlyWorker instead of `reason` if there was no choice.
[[nodiscard]] Decision Decide(const RouteQuery& query, const FleetView& fleet, WorkerSlot slot, DecisionReason reason);

}  // namespace roost::router

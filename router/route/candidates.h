// The workers that a decision compares: those that hold the most of the prompt, in their pools or on their disks, and a
// few of the least loaded. Every other worker holds less than the former and has a longer wait than the latter.
//
// O(matches + kMaxHolders · log kMaxHolders), regardless of the size of the fleet.
#pragma once

#include <cstddef>
#include <vector>

#include "router/route/policy.h"

namespace roost::router {

inline constexpr std::size_t kMaxHolders = 64;       // the deepest holders, whose cost is computed
inline constexpr std::size_t kKeptHolders = 12;      // the cheapest of them, which become candidates
inline constexpr std::size_t kLeastLoadedCount = 4;  // the least loaded workers, which become candidates too
inline constexpr std::size_t kDiskCount = 4;         // so do workers whose disks have the most

// Cheapest first, without duplicates, each with its cheapest way (pulls.h). Empty if and only if no worker of the fleet
// may take the request.
[[nodiscard]] std::vector<Candidate> FindCandidates(const RouteQuery& query, const FleetView& fleet);

// A decision for this candidate, without its list of candidates.
[[nodiscard]] Decision DecisionFor(const Candidate& chosen, DecisionReason reason, const RouteQuery& query,
                                   const FleetView& fleet);

// The decision for the worker in `slot`, with everything that a decision reports. No worker fetches anything for it.
// The worker must be in the fleet and may take the request. The reason is kOnlyWorker instead of `reason` if there was
// no choice.
[[nodiscard]] Decision Decide(const RouteQuery& query, const FleetView& fleet, WorkerSlot slot, DecisionReason reason);

}  // namespace roost::router

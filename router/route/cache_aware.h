// The default policy: the candidate of least cost, in seconds (cost.h), over the deepest holders and a few of the least
// loaded (candidates.h).
//
// Candidates within kTieSeconds of the cheapest count as equal. Of these the one with the deepest match is chosen, then
// the one with the shortest wait, then the one that has been sent nothing for the longest time, so that idle caches
// fill evenly.
//
// Two rules look ahead, both bounded: a hot prefix gets one more holder when that saves more than it costs
// (replication.h), and new workers get their share of the requests that no cache helps (warm_up.h). A question without
// a request changes neither.
//
// The cost of a decision does not grow with the fleet.
#pragma once

#include <cstdint>
#include <memory>

#include "router/route/policy.h"

namespace roost::router {

// A difference of cost that no client notices. Without it every new prefix would go to the worker that seems a little
// faster.
inline constexpr double kTieSeconds = 0.02;

[[nodiscard]] std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed);

}  // namespace roost::router

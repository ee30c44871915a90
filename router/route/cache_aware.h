// The default policy: the candidate with the least cost, in seconds (cost.h), among the deepest holders and a few of
// the least loaded workers (candidates.h).
//
// Candidates within a tie of the cheapest count as equal: kTieSeconds, and for what costs little kTieShare of its cost.
// Among these it chooses the one with the deepest match, then the one with the shortest queue, then the one that was
// sent nothing for the longest time, so that idle caches fill evenly.
//
// A bounded rule looks ahead: a hot prefix gets one more holder when that saves more than it costs (replication.h). A
// question without a request does not change its state.
//
// The time of a decision does not grow with the fleet.
#pragma once

#include <cstdint>
#include <memory>

#include "router/route/policy.h"

namespace roost::router {

// A difference of cost that no client notices. Without this tolerance every new prefix would go to the worker whose
// measured speed is a little higher.
inline constexpr double kTieSeconds = 0.02;
// A small model's whole answers may take no longer than that.
inline constexpr double kTieShare = 0.1;

[[nodiscard]] std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed);

}  // namespace roost::router

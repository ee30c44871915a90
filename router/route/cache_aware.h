// The default policy: the candidate of least cost, in seconds (cost.h), over the deepest holders and a few of the least
// loaded (candidates.h).
//
// Candidates within a few per cent of the best, or within milliseconds that nobody notices, are equal: of them the one
// with the deeper match, unless its batch is fuller or its wait longer by more than that is worth; then with the
// shorter wait. Among equally loaded workers those that were sent nothing for the longest time come first, so that idle
// caches fill evenly.
//
// Two exceptions, both bounded: a hot prefix is given one more holder when that saves more than it costs
// (replication.h), and new workers get their share of what no cache helps (warm_up.h). A mere question changes neither.
//
// The cost of a decision does not grow with the fleet.
#pragma once

#include <cstdint>
#include <memory>

#include "router/route/policy.h"

namespace roost::router {

[[nodiscard]] std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed);

}  // namespace roost::router

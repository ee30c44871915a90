// The default policy: the candidate of least cost, in seconds (cost.h), over the deepest holders and a few of the least
// loaded (candidates.h).
//
// Candidates within the tie margin of the best are equal: of them the one with the deeper match, unless its batch is
// fuller, its wait longer or its work of the last quarter of an hour more by more than that is worth; then with the
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

// Costs are equal that are no further apart than the larger of these: a part of the first one's TTFT, since a weight on
// the work does not make the prediction of a wait any worse, and milliseconds that nobody notices.
inline constexpr double kTieMargin = 0.04;
inline constexpr double kTieSeconds = 0.02;

[[nodiscard]] std::unique_ptr<Policy> MakeCacheAware(std::uint64_t seed);

}  // namespace roost::router

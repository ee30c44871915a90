// The times when the sessions of a load begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace roost::roostctl {

enum class ArrivalKind { kPoisson, kConstant };

// Times of `count` arrivals since the load's start, ascending. `per_second` is their mean rate, above 0. A Poisson
// process stands for many users who know nothing of each other: it has bursts and pauses.
[[nodiscard]] std::vector<double> ArrivalTimes(ArrivalKind kind, std::size_t count, double per_second,
                                               std::uint64_t seed);

}  // namespace roost::roostctl

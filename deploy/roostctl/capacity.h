// Searches the highest load that a cluster serves well, real or simulated.
#pragma once

#include <functional>

#include "common/base/result.h"

namespace roost::roostctl {

inline constexpr double kGoodShare = 0.99;
inline constexpr double kMaxSpeed = 256;

// The share of requests that keep their limits when arrivals are this many times as fast.
using GoodShareAt = std::function<Result<double>(double speed)>;

// The highest speed at which at least kGoodShare of the requests are good, to a factor of `precision` above 1; 0 if
// none of at least 1 / kMaxSpeed is, and at most kMaxSpeed. Doubles or halves until the speed lies between two, then
// halves the interval of its logarithm: the share is taken to fall with the speed. Calls `at` some 10 times.
[[nodiscard]] Result<double> HighestGoodSpeed(const GoodShareAt& at, double precision);

}  // namespace roost::roostctl

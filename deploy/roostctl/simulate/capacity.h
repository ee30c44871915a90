// Searches the highest load that a cluster serves well.
#pragma once

#include <functional>

#include "common/base/result.h"

namespace roost::simulate {

// The share of requests that keep their limits when arrivals are this many times as fast.
using GoodShareAt = std::function<Result<double>(double speed)>;

// The highest speed at which at least `good_share` of the requests are good, within kCapacityStep; 0 if none of at
// least 1 / kMostSpeed is, and at most kMostSpeed. Doubles or halves until the speed lies between two, then halves the
// interval of its logarithm: the share is taken to fall with the speed. Calls `at` some 10 times.
[[nodiscard]] Result<double> HighestGoodSpeed(const GoodShareAt& at, double good_share);

inline constexpr double kMostSpeed = 256;
inline constexpr double kCapacityStep = 1.02;

}  // namespace roost::simulate

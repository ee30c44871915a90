#include "deploy/roostctl/bench/arrivals.h"

#include <cmath>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace roost::roostctl {

std::vector<double> ArrivalTimes(ArrivalKind kind, std::size_t count, double per_second, std::uint64_t seed) {
  ROOST_CHECK(per_second > 0);
  Rng rng(seed);
  std::vector<double> times(count);
  double now = 0;
  for (double& time : times) {
    time = now;
    now += (kind == ArrivalKind::kConstant ? 1 : -std::log(1 - rng.Uniform())) / per_second;
  }
  return times;
}

}  // namespace roost::roostctl

#include "router/fleet/decode_costs.h"

#include <cmath>

namespace roost::router {

namespace {

// What a sum of DecodePace keeps at each step.
constexpr double kKept = 0.98;

}  // namespace

void DecodeCosts::Observe(const StepSample& step, Instant now) {
  const double age = last_.has_value() ? ToSeconds(now - *last_) : 0;
  last_ = now;
  rates_.Observe(step, std::exp2(-age / ToSeconds(kHalfLife)));
}

void DecodePace::Observe(double seconds, double expected_seconds) {
  if (!std::isfinite(seconds) || seconds <= 0 || expected_seconds <= 0) return;
  seconds_ = kKept * seconds_ + seconds;
  expected_seconds_ = kKept * expected_seconds_ + expected_seconds;
}

}  // namespace roost::router

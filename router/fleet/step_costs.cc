#include "router/fleet/step_costs.h"

#include <cmath>

namespace roost::router {

namespace {

// What a sum of StepPace keeps at each step.
constexpr double kKept = 0.98;
// A worker begins as if so many steps had taken what was expected.
constexpr double kStepsAsExpected = 4;

}  // namespace

void StepCosts::Observe(const StepSample& step, Instant now) {
  const double age = last_.has_value() ? ToSeconds(now - *last_) : 0;
  last_ = now;
  const double kept = std::exp2(-age / ToSeconds(kHalfLife));
  all_.Observe(step, kept);
  if (step.prefill_tokens == 0) decodes_.Observe(step, kept);
}

double StepCosts::prefill_tokens_per_second() const {
  return all_.tells_tokens_from_steps() ? all_.prefill_tokens_per_second() : 0;
}

double StepCosts::ExpectedSeconds(const StepSample& step) const {
  if (step.prefill_tokens == 0) return decodes_.decode_step_seconds(step.decode_tokens, step.context_tokens);
  const double rate = prefill_tokens_per_second();
  if (rate <= 0) return 0;
  return step.prefill_tokens / rate + all_.seconds_beside_prefill(step.decode_tokens, step.context_tokens);
}

void StepPace::Observe(double seconds, double expected_seconds) {
  if (!std::isfinite(seconds) || seconds <= 0 || expected_seconds <= 0) return;
  if (expected_seconds_ == 0) seconds_ = expected_seconds_ = kStepsAsExpected * expected_seconds;
  seconds_ = kKept * seconds_ + seconds;
  expected_seconds_ = kKept * expected_seconds_ + expected_seconds;
}

}  // namespace roost::router

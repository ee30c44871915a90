#include "router/fleet/workers/step_costs.h"

#include <algorithm>
#include <cmath>

namespace roost::router {

namespace {

// The share of a StepPace's sums that each step keeps.
constexpr double kKept = 0.98;
// A worker begins as if so many steps, and so many seconds of them, had taken what was expected: the first one may be
// short, and the fit knows little of short steps before it has seen any.
constexpr double kStepsAsExpected = 2;
constexpr double kSecondsAsExpected = 0.1;
constexpr double kLongestSeconds = 3600;

}  // namespace

bool IsPossible(const StepSample& step, std::uint64_t pool_tokens, std::uint32_t running_requests) {
  if (step.seconds > kLongestSeconds) return false;
  if (pool_tokens == 0) return true;
  // Requests may share blocks, so each can attend to the whole pool.
  const std::uint64_t requests = std::max({running_requests, step.decode_tokens, 1U});
  return step.prefill_tokens <= pool_tokens && step.decode_tokens <= pool_tokens &&
         step.context_tokens / requests <= pool_tokens;
}

void StepCosts::Observe(StepSample step, double slowness, Instant now) {
  step.seconds /= slowness;
  const double age = last_.has_value() ? ToSeconds(now - *last_) : 0;
  last_ = now;
  const double kept = std::exp2(-age / ToSeconds(kHalfLife));
  all_.Observe(step, kept);
  if (step.prefill_tokens == 0) decodes_.Observe(step, kept);
}

double StepCosts::prefill_tokens_per_second() const {
  const double seconds_per_token = all_.prefill_seconds(1);
  return seconds_per_token > 0 ? 1 / seconds_per_token : 0;
}

double StepCosts::ExpectedSeconds(const StepSample& step) const {
  return step.prefill_tokens > 0 ? all_.prefill_step_seconds(step)
                                 : decodes_.decode_step_seconds(step.decode_tokens, step.context_tokens);
}

void StepPace::Observe(double seconds, double expected_seconds) {
  if (!std::isfinite(seconds) || seconds <= 0 || expected_seconds <= 0) return;
  if (expected_seconds_ == 0) {
    seconds_ = expected_seconds_ = std::max(kSecondsAsExpected, kStepsAsExpected * expected_seconds);
  }
  seconds_ = kKept * seconds_ + seconds;
  expected_seconds_ = kKept * expected_seconds_ + expected_seconds;
}

}  // namespace roost::router

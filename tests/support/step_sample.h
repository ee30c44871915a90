// The StepSample of these slices, for a step that took this long.
#pragma once

#include <vector>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"
#include "worker/sched/scheduler.h"

namespace roost::testing_support {

inline StepSample SampleOf(const std::vector<worker::ScheduledSlice>& slices, Duration step_time) {
  StepSample step{.seconds = ToSeconds(step_time)};
  for (const worker::ScheduledSlice& slice : slices) {
    (slice.is_decode ? step.decode_tokens : step.prefill_tokens) += slice.token_count;
  }
  return step;
}

}  // namespace roost::testing_support

#include "worker/sched/step_pace.h"

#include <algorithm>

namespace roost::worker {

std::optional<double> StepPace::Note(const StepSample& step, std::uint64_t tokens_before) {
  constexpr double kForgetting = 0.9;
  if (step.seconds <= 0) return std::nullopt;
  rates_.Observe(step);
  if (step.prefill_tokens == 0) return std::nullopt;
  seconds_ = seconds_ * kForgetting + step.seconds;
  tokens_ = tokens_ * kForgetting + step.prefill_tokens + step.decode_tokens;
  return NoteDepth(step, tokens_before);
}

// A fit of its own, which forgets slowly: how time grows with depth is a property of the model and the device. From few
// steps it would be the noise of one. A step that takes far longer than expected was interrupted, and would be
// remembered for as long. Where hardly any prompt begins, a fit can not tell what its first tokens take, and might give
// all time to depth.
std::optional<double> StepPace::NoteDepth(const StepSample& step, std::uint64_t tokens_before) {
  constexpr double kForgetting = 0.9999;
  constexpr std::uint64_t kMinSteps = 32;
  constexpr double kMostLate = 2;      // times the expected time
  constexpr double kLeastShare = 0.1;  // of the mean time of a token, that one without tokens before it takes
  constexpr std::uint64_t kFar = 1U << 20U;
  StepSample seen{step.prefill_tokens, step.decode_tokens, step.seconds, tokens_before};
  if (prefill_steps_ >= kMinSteps) {
    seen.seconds = std::min(seen.seconds, kMostLate * depth_rates_.prefill_step_seconds(seen));
  }
  depth_rates_.Observe(seen, kForgetting);
  depth_seconds_ = depth_seconds_ * kForgetting + seen.seconds;
  depth_tokens_ = depth_tokens_ * kForgetting + step.prefill_tokens;
  if (++prefill_steps_ < kMinSteps) return std::nullopt;
  const double deep = (depth_rates_.seconds_beside_prefill(0, kFar) - depth_rates_.seconds_beside_prefill(0)) / kFar;
  const double first =
      std::max(1 / depth_rates_.prefill_tokens_per_second(), kLeastShare * depth_seconds_ / depth_tokens_);
  depth_ = Depth{.first_seconds = first, .seconds_per_token_before = deep};
  return deep / first;
}

double StepPace::PromptSeconds(std::uint32_t first_position, std::uint32_t token_count) const {
  if (!depth_) return rates_.prefill_seconds(token_count);
  return depth_->first_seconds * token_count +
         depth_->seconds_per_token_before * static_cast<double>(TokensBefore(first_position, token_count));
}

double StepPace::PromptTokenSeconds(std::uint32_t prompt_tokens) const {
  const StepSample full{.prefill_tokens = prompt_tokens,
                        .decode_tokens = full_step_ - std::min(full_step_, prompt_tokens)};
  const double seconds = rates_.prefill_step_seconds(full) / prompt_tokens;
  return seconds > 0 ? seconds : mean_token_seconds();
}

}  // namespace roost::worker

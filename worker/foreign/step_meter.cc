#include "worker/foreign/step_meter.h"

#include <algorithm>
#include <utility>

namespace roost::worker::foreign {
namespace {

// The bounds of the wire.
constexpr double kLeastStepSeconds = 1e-6;
constexpr double kMostStepSeconds = 1e5;
// Of its time, what is left for a step with a prefill at least: the others' share is an estimate.
constexpr double kLeastShare = 0.1;

}  // namespace

void StepMeter::OnSent(CallId call, Instant now) {
  if (waiting_.empty() && running_.empty()) last_arrival_ = now;
  if (waiting_.empty()) mixed_ = Mixed{.began = now};
  waiting_.insert(call);
}

// The open step, or a new one if the call has tokens in that one already.
StepMeter::Step& StepMeter::StepOf(CallId call, Instant now) {
  if (open_ && open_->calls.contains(call)) Close();
  if (!open_) open_ = Step{.arrived = now};
  open_->calls.insert(call);
  return *open_;
}

void StepMeter::OnFirstTokens(CallId call, std::uint32_t prefill_tokens, std::uint32_t tokens, Instant now) {
  Step& step = StepOf(call, now);
  step.has_first_tokens = true;
  step.prefill_tokens += prefill_tokens;
  step.decode_tokens += tokens - std::min(tokens, 1U);  // the first token comes with the prefill
  waiting_.erase(call);
  running_.insert(call);
}

void StepMeter::OnTokens(CallId call, std::uint32_t tokens, Instant now) { StepOf(call, now).decode_tokens += tokens; }

void StepMeter::OnEnd(CallId call) {
  waiting_.erase(call);
  running_.erase(call);
}

void StepMeter::CloseIfIdle() {
  if (open_ && running_.empty()) Close();
}

void StepMeter::Close() {
  const Step step = *std::exchange(open_, std::nullopt);
  const double seconds = ToSeconds(step.arrived - last_arrival_);
  if (step.has_first_tokens) {
    CloseWithPrefill(step);
  } else if (!waiting_.empty() && mixed_ && step.arrived > mixed_->began) {
    ++mixed_->steps;
    mixed_->decode_tokens += step.decode_tokens;
  } else {
    const StepSample sample{.prefill_tokens = 0, .decode_tokens = step.decode_tokens, .seconds = seconds};
    decodes_.Observe(sample);
    Report(sample);
  }
  last_arrival_ = step.arrived;
}

void StepMeter::CloseWithPrefill(const Step& step) {
  const Mixed mixed = mixed_.value_or(Mixed{.began = last_arrival_});
  mixed_ = waiting_.empty() ? std::nullopt : std::optional(Mixed{.began = step.arrived});
  const double all_seconds = ToSeconds(step.arrived - mixed.began);
  const auto decodes = static_cast<std::uint32_t>((mixed.decode_tokens + step.decode_tokens) / (mixed.steps + 1));
  double seconds = all_seconds;
  if (mixed.steps > 0) {
    const double decode_seconds = decodes_.decode_step_seconds(decodes);
    if (decode_seconds == 0) return;
    seconds = std::max(all_seconds - mixed.steps * decode_seconds, kLeastShare * all_seconds);
  }
  Report({.prefill_tokens = step.prefill_tokens, .decode_tokens = decodes, .seconds = seconds});
}

void StepMeter::Report(const StepSample& sample) {
  if (sample.prefill_tokens + sample.decode_tokens == 0 || sample.seconds < kLeastStepSeconds) return;
  if (sample.seconds > kMostStepSeconds) return;
  if (steps_.size() == kMaxKeptSteps) steps_.pop_front();
  steps_.push_back(sample);
}

std::optional<StepSample> StepMeter::TakeStep() {
  if (steps_.empty()) return std::nullopt;
  const StepSample sample = steps_.front();
  steps_.pop_front();
  return sample;
}

}  // namespace roost::worker::foreign

#include "worker/adapters/step_meter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace roost::worker::adapters {
namespace {

// The bounds of the wire.
constexpr double kMinStepSeconds = 1e-6;
constexpr double kMaxStepSeconds = 1e5;
// The least share of the time that a step with a prefill keeps: the others' share is an estimate.
constexpr double kMinShare = 0.1;
// A step counts as at most so many times as long as expected: an engine's first use of a shape, or a pause of the whole
// machine, is no speed, and routers would leave the engine alone until they forget it. An engine that stays slow is
// believed after some steps.
constexpr double kMaxSlowness = 2;
// The first steps with a prefill are compared with the fastest of them, where a prefill counts as this many tokens
// more.
constexpr std::uint32_t kFirstPrefills = 8;
constexpr double kBaseTokens = 256;
// Arrivals of one call that are closer to each other are one.
constexpr Duration kAtOnce = std::chrono::microseconds(500);

}  // namespace

void StepMeter::OnSent(CallId call, Instant now) {
  if (waiting_.empty() && running_.empty()) last_arrival_ = now;
  // The prefills of an open step are still to be counted.
  if (waiting_.empty() && !(open_ && open_->has_first_tokens)) mixed_ = Mixed{.began = now};
  waiting_.emplace(call, now);
}

std::uint32_t StepMeter::Step::count() const {
  std::uint32_t most = 1;
  for (const auto& [call, tokens] : calls) most = std::max(most, tokens);
  return most;
}

// The open step, or a new one if the call has tokens in that one already.
StepMeter::Step& StepMeter::StepOf(CallId call, std::uint32_t tokens, Instant now) {
  if (open_ && open_->calls.contains(call) && now - open_->arrived >= kAtOnce) Close();
  if (!open_) open_ = Step{.arrived = now};
  open_->calls[call] += tokens;
  open_->last_arrived = now;
  return *open_;
}

bool StepMeter::AreOfALaterStep(CallId call, Instant now) const {
  const auto sent = waiting_.find(call);
  if (sent != waiting_.end() && sent->second > open_->arrived) return true;
  const double decode_seconds = decodes_.decode_step_seconds(open_->decode_tokens / open_->count());
  return decode_seconds > 0 && ToSeconds(now - open_->last_arrived) > decode_seconds / 2;
}

void StepMeter::OnFirstTokens(CallId call, std::uint32_t prefill_tokens, std::uint32_t tokens, Instant now) {
  if (open_ && AreOfALaterStep(call, now)) Close();
  Step& step = StepOf(call, tokens, now);
  step.has_first_tokens = true;
  step.prefill_tokens += prefill_tokens;
  step.decode_tokens += tokens - std::min(tokens, 1U);  // the first token comes with the prefill
  waiting_.erase(call);
  running_.insert(call);
}

void StepMeter::OnTokens(CallId call, std::uint32_t tokens, Instant now) {
  StepOf(call, tokens, now).decode_tokens += tokens;
}

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
    mixed_->steps += step.count();
    mixed_->decode_tokens += step.decode_tokens;
  } else {
    const std::uint32_t count = step.count();
    const StepSample sample{
        .prefill_tokens = 0, .decode_tokens = step.decode_tokens / count, .seconds = seconds / count};
    decodes_.Observe(sample);
    Report(sample);
  }
  last_arrival_ = step.arrived;
}

void StepMeter::CloseWithPrefill(const Step& step) {
  const Mixed mixed = mixed_.value_or(Mixed{.began = last_arrival_});
  mixed_.reset();
  if (!waiting_.empty()) {
    const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    mixed_ = Mixed{.began = std::max(step.arrived, first->second)};
  }
  const double all_seconds = ToSeconds(step.arrived - mixed.began);
  const std::uint32_t others = mixed.steps + step.count() - 1;
  const auto decodes = static_cast<std::uint32_t>((mixed.decode_tokens + step.decode_tokens) / (others + 1));
  double seconds = all_seconds;
  if (others > 0) {
    const double decode_seconds = decodes_.decode_step_seconds(decodes);
    if (decode_seconds == 0) return;
    seconds = std::max(all_seconds - others * decode_seconds, kMinShare * all_seconds);
  }
  Report({.prefill_tokens = step.prefill_tokens, .decode_tokens = decodes, .seconds = seconds});
}

double StepMeter::Expected(const StepSample& step) {
  if (step.prefill_tokens == 0) return speed_.decode_step_seconds(step.decode_tokens);
  if (first_prefills_ < kFirstPrefills) {
    ++first_prefills_;
    const double tokens = step.prefill_tokens + kBaseTokens;
    best_seconds_per_token_ = std::min(best_seconds_per_token_, step.seconds / tokens);
    return best_seconds_per_token_ * tokens;
  }
  const double prefill = speed_.prefill_seconds(step.prefill_tokens);
  return prefill == 0 ? 0 : prefill + speed_.seconds_beside_prefill(step.decode_tokens);
}

void StepMeter::Report(StepSample sample) {
  if (sample.prefill_tokens + sample.decode_tokens == 0 || sample.seconds < kMinStepSeconds) return;
  if (sample.seconds > kMaxStepSeconds) return;
  const double expected = Expected(sample);
  if (expected > 0) sample.seconds = std::min(sample.seconds, kMaxSlowness * expected);
  speed_.Observe(sample);
  if (steps_.size() == kMaxKeptSteps) steps_.pop_front();
  steps_.push_back(sample);
}

std::optional<StepSample> StepMeter::TakeStep() {
  if (steps_.empty()) return std::nullopt;
  const StepSample sample = steps_.front();
  steps_.pop_front();
  return sample;
}

}  // namespace roost::worker::adapters

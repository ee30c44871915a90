#include "deploy/roostctl/simulate/fluid_decode.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace roost::simulate {
namespace {

// In tokens: how much of the last one rounding may leave undrawn.
constexpr double kDrawn = 1e-5;

}  // namespace

double FluidDecode::StepSecondsWithoutPrompts() const {
  return model_.DecodeStepSeconds(request_count() / worker_count_, context_tokens_ / worker_count_) / speed_;
}

// Requests are spread over workers of which a share is slower: the mean of their rates counts.
double FluidDecode::FirstStepSeconds() const {
  const double alone = StepSecondsWithoutPrompts();
  const double share = prompts_.worker_share;
  return 1 / ((1 - share) / alone + share / (alone + prompts_.seconds_per_step / speed_));
}

double FluidDecode::GrowthSeconds() const {
  return model_.SecondsPerContextToken(context_tokens_ / worker_count_) * request_count() / worker_count_ / speed_;
}

double FluidDecode::SecondsFor(double tokens) const {
  return tokens * (FirstStepSeconds() + GrowthSeconds() * tokens / 2);
}

// The inverse of SecondsFor, in the form that is stable where growth is little. A curve that would turn back is taken
// as straight.
double FluidDecode::TokensIn(double seconds) const {
  const double first = FirstStepSeconds();
  const double square = first * first + 2 * GrowthSeconds() * seconds;
  return 2 * seconds / (first + std::sqrt(std::max(square, first * first / 4)));
}

void FluidDecode::AdvanceTo(Instant now) {
  ROOST_CHECK(now >= now_, "time goes back");
  if (!marks_.empty()) {
    const double drawn = TokensIn(ToSeconds(now - now_));
    drawn_ += drawn;
    context_tokens_ += drawn * request_count();
  }
  now_ = now;
}

void FluidDecode::Start(const Request& request, Instant now) {
  AdvanceTo(now);
  const double mark = drawn_ + request.token_count;
  if (marks_.empty()) steps_begin_ = drawn_;
  marks_.emplace(mark, request.id);
  const Place place{mark, request.context_token_count + request.token_count, request.context_token_count};
  const bool is_new = places_.emplace(request.id, place).second;
  ROOST_CHECK(is_new, "request {} decodes already", request.id);
  context_tokens_ += request.context_token_count;
  given_tokens_ += request.context_token_count;
}

double FluidDecode::Stop(std::uint64_t id, Instant now) {
  AdvanceTo(now);
  const double left = std::max(0.0, places_.at(id).mark - drawn_);
  Erase(id, left);
  return left;
}

double FluidDecode::TokensLeft(std::uint64_t id, Instant now) const {
  return std::max(0.0, places_.at(id).mark - drawn_ - TokensIn(ToSeconds(now - now_)));
}

void FluidDecode::SetPrompts(const Prompts& prompts, Instant now) {
  AdvanceTo(now);
  if (model_.batching == Batching::kSeparate) return;
  prompts_ = prompts;
  steps_begin_ = drawn_;
}

void FluidDecode::Erase(std::uint64_t id, double tokens_left) {
  const auto place = places_.find(id);
  marks_.erase({place->second.mark, id});
  context_tokens_ = marks_.empty() ? 0 : context_tokens_ - (place->second.context_at_mark - tokens_left);
  given_tokens_ = marks_.empty() ? 0 : given_tokens_ - place->second.given;
  places_.erase(place);
}

std::vector<std::uint64_t> FluidDecode::TakeEnded(Instant now) {
  AdvanceTo(now);
  std::vector<std::uint64_t> ended;
  while (!marks_.empty() && marks_.begin()->first <= drawn_ + kDrawn) {
    ended.push_back(marks_.begin()->second);
    Erase(ended.back(), 0);
  }
  return ended;
}

std::optional<Instant> FluidDecode::NextEnd() const {
  if (marks_.empty()) return std::nullopt;
  const double left = std::max(0.0, marks_.begin()->first - drawn_);
  if (left <= kDrawn) return now_;
  return now_ + FromSeconds(SecondsFor(left)) + Duration(1);  // never a nanosecond too early
}

Instant FluidDecode::StepEnd(Instant now) {
  AdvanceTo(now);
  if (marks_.empty() || model_.batching == Batching::kSeparate) return now;
  const double done = drawn_ - steps_begin_;
  const double left = std::ceil(done - kDrawn) - done;
  return left <= kDrawn ? now : now + FromSeconds(SecondsFor(left)) + Duration(1);
}

}  // namespace roost::simulate

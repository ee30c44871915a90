#include "deploy/roostctl/simulate/fluid_decode.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::simulate {
namespace {

// In tokens: how much of the last one rounding may leave undrawn.
constexpr double kDrawn = 1e-5;

}  // namespace

double FluidDecode::StepSeconds() const {
  return model_.DecodeStepSeconds(request_count() / worker_count_, context_tokens_ / worker_count_) / speed_;
}

void FluidDecode::AdvanceTo(Instant now) {
  ROOST_CHECK(now >= now_, "time goes back");
  if (!marks_.empty()) {
    const double drawn = ToSeconds(now - now_) / StepSeconds();
    drawn_ += drawn;
    context_tokens_ += drawn * request_count();
  }
  now_ = now;
}

void FluidDecode::Start(const Request& request, Instant now) {
  AdvanceTo(now);
  const double mark = drawn_ + request.token_count;
  marks_.emplace(mark, request.id);
  const bool is_new =
      places_.emplace(request.id, Place{mark, request.context_token_count + request.token_count}).second;
  ROOST_CHECK(is_new, "request {} decodes already", request.id);
  context_tokens_ += request.context_token_count;
}

double FluidDecode::Stop(std::uint64_t id, Instant now) {
  AdvanceTo(now);
  const double left = std::max(0.0, places_.at(id).mark - drawn_);
  Erase(id, left);
  return left;
}

void FluidDecode::Erase(std::uint64_t id, double tokens_left) {
  const auto place = places_.find(id);
  marks_.erase({place->second.mark, id});
  context_tokens_ = marks_.empty() ? 0 : context_tokens_ - (place->second.context_at_mark - tokens_left);
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
  return now_ + FromSeconds(left * StepSeconds()) + Duration(1);  // never a nanosecond too early
}

}  // namespace roost::simulate

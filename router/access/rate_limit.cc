#include "router/access/rate_limit.h"

#include <algorithm>
#include <cmath>

#include "router/access/api_key.h"

namespace roost::router {
namespace {

constexpr double kMinuteSeconds = 60;
// The rounding error that sums of fractions may have below a whole number.
constexpr double kRounding = 1e-6;

}  // namespace

void RateLimit::Fill(std::uint64_t per_minute, Instant now) {
  if (began_ && now > filled_at_) {
    used_ = std::max(0.0, used_ - ToSeconds(now - filled_at_) * static_cast<double>(per_minute) / kMinuteSeconds);
  }
  began_ = true;
  filled_at_ = now;
}

RateLimit::State RateLimit::Look(std::uint64_t per_minute, Instant now) {
  State state;
  state.limit = per_minute;
  if (per_minute == kNoLimit) {
    state.remaining = kNoLimit;
    return state;
  }
  Fill(per_minute, now);
  const auto limit = static_cast<double>(per_minute);
  const double left = limit - used_;
  state.remaining = left + kRounding < 1 ? 0 : static_cast<std::uint64_t>(left + kRounding);
  const double per_second = std::max(limit, 1.0) / kMinuteSeconds;
  state.until_full = FromSeconds(used_ / per_second);
  if (state.remaining == 0) state.until_free = FromSeconds((1 - left) / per_second);
  return state;
}

void RateLimit::Take(std::uint64_t amount, std::uint64_t per_minute, Instant now) {
  if (per_minute == kNoLimit) return;
  Fill(per_minute, now);
  used_ += static_cast<double>(amount);
}

void RateLimit::GiveBack(std::uint64_t amount, std::uint64_t per_minute, Instant now) {
  if (per_minute == kNoLimit) return;
  Fill(per_minute, now);
  used_ = std::max(0.0, used_ - static_cast<double>(amount));
}

}  // namespace roost::router

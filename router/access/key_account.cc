#include "router/access/key_account.h"

#include <fmt/format.h>

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

namespace {

// At least one: a limit that several routers share does not become "none at all".
std::uint64_t ShareOf(std::uint64_t limit, std::uint32_t router_count) {
  if (limit == kNoLimit || limit == 0) return limit;
  return std::max<std::uint64_t>(1, limit / std::max(router_count, 1U));
}

RateRefusal Refusal(std::string message, Duration retry_after) {
  return {Error{ErrorCode::kRateLimited, std::move(message), ""}, retry_after};
}

}  // namespace

std::optional<RateRefusal> KeyAccount::Begin(const KeyLimits& limits, std::uint32_t router_count, Instant now) {
  const std::lock_guard lock(mutex_);
  std::optional<RateRefusal> refusal = LimitReached(limits, router_count, now);
  if (refusal) {
    ++usage_.refused;
    return refusal;
  }
  ++concurrent_;
  requests_.Take(1, ShareOf(limits.requests_per_minute, router_count), now);
  return std::nullopt;
}

std::optional<RateRefusal> KeyAccount::LimitReached(const KeyLimits& limits, std::uint32_t router_count, Instant now) {
  // An open request may end at any time.
  constexpr Duration kSoon = std::chrono::seconds(1);
  if (concurrent_ >= ShareOf(limits.concurrent_requests, router_count)) {
    return Refusal(fmt::format("this key may have {} requests at a time", limits.concurrent_requests), kSoon);
  }
  const RateLimit::State requests = requests_.Look(ShareOf(limits.requests_per_minute, router_count), now);
  if (requests.remaining == 0) {
    return Refusal(fmt::format("this key may make {} requests a minute", limits.requests_per_minute),
                   requests.until_free);
  }
  const RateLimit::State tokens = tokens_.Look(ShareOf(limits.tokens_per_minute, router_count), now);
  if (tokens.remaining == 0) {
    return Refusal(fmt::format("this key may use {} tokens a minute", limits.tokens_per_minute), tokens.until_free);
  }
  return std::nullopt;
}

void KeyAccount::End() {
  const std::lock_guard lock(mutex_);
  --concurrent_;
}

void KeyAccount::TakeTokens(std::uint64_t count, const KeyLimits& limits, std::uint32_t router_count, Instant now) {
  const std::lock_guard lock(mutex_);
  tokens_.Take(count, ShareOf(limits.tokens_per_minute, router_count), now);
}

void KeyAccount::GiveTokensBack(std::uint64_t count, const KeyLimits& limits, std::uint32_t router_count, Instant now) {
  const std::lock_guard lock(mutex_);
  tokens_.GiveBack(count, ShareOf(limits.tokens_per_minute, router_count), now);
}

LimitsState KeyAccount::Look(const KeyLimits& limits, std::uint32_t router_count, Instant now) {
  const std::lock_guard lock(mutex_);
  return {.requests = requests_.Look(ShareOf(limits.requests_per_minute, router_count), now),
          .tokens = tokens_.Look(ShareOf(limits.tokens_per_minute, router_count), now)};
}

void KeyAccount::CountGeneration(std::uint64_t prompt_tokens, std::uint64_t cached_tokens,
                                 std::uint64_t output_tokens) {
  const std::lock_guard lock(mutex_);
  ++usage_.requests;
  usage_.prompt_tokens += prompt_tokens;
  usage_.cached_tokens += cached_tokens;
  usage_.output_tokens += output_tokens;
}

KeyUsage KeyAccount::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::variant<std::shared_ptr<Admission>, RateRefusal> Admission::Ask(KeyEntry entry, std::uint32_t router_count,
                                                                     Instant now) {
  if (std::optional<RateRefusal> refusal = entry.account->Begin(entry.key->limits, router_count, now)) {
    return *std::move(refusal);
  }
  return std::shared_ptr<Admission>(new Admission(Kind::kCounted, std::move(entry), router_count));
}

std::shared_ptr<Admission> Admission::Uncounted(KeyEntry entry, std::uint32_t router_count) {
  return std::shared_ptr<Admission>(new Admission(Kind::kUncounted, std::move(entry), router_count));
}

Admission::~Admission() {
  if (kind_ == Kind::kCounted) entry_.account->End();
}

void Admission::TakeTokens(std::uint64_t count, Instant now) const {
  entry_.account->TakeTokens(count, key().limits, router_count_, now);
}

void Admission::GiveTokensBack(std::uint64_t count, Instant now) const {
  entry_.account->GiveTokensBack(count, key().limits, router_count_, now);
}

LimitsState Admission::Look(Instant now) const { return entry_.account->Look(key().limits, router_count_, now); }

}  // namespace roost::router

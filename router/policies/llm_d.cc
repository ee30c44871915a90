// llm-d: sticky until saturated, the default profile of llm-d's router (prefix-cache-affinity-filter, then
// token-load-scorer):
//
//   sticky     the workers that hold at least 0.80 of the prompt (affinityThreshold); if there is none, all workers
//   saturated  if the best sticky worker would begin more than 18 s (maxTTFTPenaltyMs) later than the best other one
//              (by tokens in flight ÷ prefill rate): all workers
//   of these   the least tokens in flight plus uncached tokens of the prompt; a random one of several equals
//
// In llm-d the prefill rate (peakPrefillThroughput, 15,928 tokens/s) is calibrated by hand for a model and GPU. Here it
// is the fleet's measured mean, or that default while none is known. Tokens in flight are the uncached tokens that
// wait.
#include <algorithm>
#include <optional>
#include <utility>

#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr double kAffinityThreshold = 0.80;
constexpr double kMaxTtftPenaltySeconds = 18;
constexpr double kDefaultTokensPerSecond = 15928;

bool IsSticky(const RouteQuery& query, const Prospect& prospect) {
  return prospect.matched_tokens >= kAffinityThreshold * query.prompt_token_count;
}

// The fewest among the prospects of the group; empty when it has none.
template <typename InGroup>
std::optional<std::uint64_t> FewestInFlight(std::span<const Prospect> prospects, InGroup in_group) {
  std::optional<std::uint64_t> fewest;
  for (const Prospect& prospect : prospects) {
    if (!in_group(prospect)) continue;
    const std::uint64_t tokens = prospect.worker->queued_prefill_tokens;
    fewest = std::min(fewest.value_or(tokens), tokens);
  }
  return fewest;
}

bool IsSaturated(std::uint64_t sticky_tokens, std::uint64_t other_tokens, const FleetSpeed& speed) {
  if (other_tokens >= sticky_tokens) return false;
  const double rate = speed.is_known() ? speed.prefill_tokens_per_second : kDefaultTokensPerSecond;
  return static_cast<double>(sticky_tokens - other_tokens) / rate > kMaxTtftPenaltySeconds;
}

class LlmD final : public ScanningPolicy {
 public:
  explicit LlmD(std::uint64_t seed) : ScanningPolicy("llm-d", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& fleet) override {
    const auto is_sticky = [&](const Prospect& prospect) { return IsSticky(query, prospect); };
    const auto is_other = [&](const Prospect& prospect) { return !IsSticky(query, prospect); };
    const std::optional<std::uint64_t> sticky = FewestInFlight(prospects, is_sticky);
    const std::optional<std::uint64_t> other = FewestInFlight(prospects, is_other);
    if (!sticky.has_value()) return {LeastTokens(prospects), DecisionReason::kMinLoad};
    if (other.has_value() && IsSaturated(*sticky, *other, fleet.speed())) {
      return {LeastTokens(prospects), DecisionReason::kUnsticky};
    }
    const std::size_t least = Least(
        prospects, [&](const Prospect& prospect) { return std::make_pair(is_other(prospect), TokensOn(prospect)); });
    return {least, DecisionReason::kSticky};
  }

 private:
  static std::uint64_t TokensOn(const Prospect& prospect) {
    return prospect.worker->queued_prefill_tokens + prospect.uncached_tokens;
  }

  std::size_t LeastTokens(std::span<const Prospect> prospects) { return Least(prospects, &TokensOn); }
};

}  // namespace

std::unique_ptr<Policy> MakeLlmD(std::uint64_t seed) { return std::make_unique<LlmD>(seed); }

}  // namespace roost::router

// sglang: the cache_aware policy of SGLang's router with its approximate tree (sgl-router/src/policies/cache_aware.rs),
// which estimates the caches only from its own routing:
//
//   loads differ too much      → the fewest requests in flight       max - min > 32 and max > 1.1 · min
//   else match > half a prompt → the worker that it was sent to last
//   else                       → the fewest requests in flight
//
// There are two generations of this policy. This follows the newer one in its defaults (match threshold 0.5, imbalance
// 32 and 1.1; the older had 0.3, 64 and 1.5) and in its handling of misses: the older one sent all misses to the worker
// with the smallest tree, which overloaded it (sglang issues 14305, 14532). The tree has the same bound, 2^26
// characters per worker, counted as four to a token. SGLang enforces it by a sweep every two minutes, here it holds at
// all times.
#include <algorithm>

#include "router/policies/approximate_tree.h"
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

constexpr double kMatchThreshold = 0.5;
constexpr std::uint32_t kImbalanceDifference = 32;
constexpr double kImbalanceRatio = 1.1;
constexpr std::size_t kMaxTokensPerWorker = (1U << 26U) / 4;
constexpr std::size_t kUsualBlockTokens = 16;

class Sglang final : public ScanningPolicy {
 public:
  explicit Sglang(std::uint64_t seed) : ScanningPolicy("sglang", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& query, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    const Pick pick = PickByHistory(query, prospects);
    if (!query.is_question) tree_.Add(*prospects[pick.index].worker, query.block_hashes);
    return pick;
  }

 private:
  Pick PickByHistory(const RouteQuery& query, std::span<const Prospect> prospects) {
    const std::size_t least = LeastInFlight(prospects);
    if (IsImbalanced(prospects)) return {least, DecisionReason::kImbalance};
    const std::optional<ApproximateTree::Match> match = tree_.Find(query.block_hashes);
    if (!match.has_value()) return {least, DecisionReason::kMinLoad};
    const auto worker = std::find_if(prospects.begin(), prospects.end(),
                                     [&](const Prospect& prospect) { return prospect.worker->slot == match->slot; });
    if (worker == prospects.end()) return {least, DecisionReason::kMinLoad};
    const double matched_tokens = static_cast<double>(match->block_count) * worker->worker->block_tokens;
    if (matched_tokens <= kMatchThreshold * query.prompt_token_count) return {least, DecisionReason::kMinLoad};
    return {static_cast<std::size_t>(worker - prospects.begin()), DecisionReason::kHistory};
  }

  static bool IsImbalanced(std::span<const Prospect> prospects) {
    const auto by_load = [](const Prospect& a, const Prospect& b) {
      return a.worker->in_flight_requests < b.worker->in_flight_requests;
    };
    const auto [least, most] = std::minmax_element(prospects.begin(), prospects.end(), by_load);
    const std::uint32_t low = least->worker->in_flight_requests;
    const std::uint32_t high = most->worker->in_flight_requests;
    return high - low > kImbalanceDifference && static_cast<double>(high) > kImbalanceRatio * low;
  }

  ApproximateTree tree_{kMaxTokensPerWorker / kUsualBlockTokens};
};

}  // namespace

std::unique_ptr<Policy> MakeSglang(std::uint64_t seed) { return std::make_unique<Sglang>(seed); }

}  // namespace roost::router

// least-tokens: the worker with the fewest uncached prompt tokens in its queue, as it reported and this router has sent
// since; of several any. The length of a queue in work instead of requests (llm-d's token-load-scorer without the
// request's own tokens). No parameters.
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

class LeastTokens final : public ScanningPolicy {
 public:
  explicit LeastTokens(std::uint64_t seed) : ScanningPolicy("least-tokens", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& /*query*/, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    const std::size_t least =
        Least(prospects, [](const Prospect& prospect) { return prospect.worker->queued_prefill_tokens; });
    return {least, DecisionReason::kLeastLoad};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeLeastTokens(std::uint64_t seed) { return std::make_unique<LeastTokens>(seed); }

}  // namespace roost::router

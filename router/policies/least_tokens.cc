// least-tokens: the worker with the fewest uncached prompt tokens in its queue, from its report and what this router
// has sent since; a random one of several equals. It measures a queue by its work instead of its requests (llm-d's
// token-load-scorer without the request's own tokens). No parameters.
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
    return {least, DecisionReason::kMinLoad};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeLeastTokens(std::uint64_t seed) { return std::make_unique<LeastTokens>(seed); }

}  // namespace roost::router

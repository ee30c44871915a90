// lmetric: the least product of the prompt's uncached tokens and the batch size, with this request; of several any
// (Zhang et al., LMetric: Simple is Better, arXiv 2603.15202). No parameters. The batch is what runs and waits there,
// as reported and sent since; the one more keeps an idle worker's product from being zero whatever it holds.
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

std::uint64_t ProductOf(const Prospect& prospect) {
  const std::uint64_t batch = std::uint64_t{prospect.worker->running_requests} + prospect.worker->waiting_requests;
  return prospect.uncached_tokens * (batch + 1);
}

class Lmetric final : public ScanningPolicy {
 public:
  explicit Lmetric(std::uint64_t seed) : ScanningPolicy("lmetric", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& /*query*/, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    return {Least(prospects, &ProductOf), DecisionReason::kLeastCost};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeLmetric(std::uint64_t seed) { return std::make_unique<Lmetric>(seed); }

}  // namespace roost::router

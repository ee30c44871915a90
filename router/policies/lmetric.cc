// lmetric: the least product of the prompt's uncached tokens and the batch size; a random one of several equals (Zhang
// et al., LMetric: Simple is Better, arXiv 2603.15202). No parameters. The batch has the requests that run and wait at
// the worker, as reported and sent since, and the new request. So an idle worker's product also depends on what it
// holds.
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
    return {Least(prospects, &ProductOf), DecisionReason::kMinCost};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeLmetric(std::uint64_t seed) { return std::make_unique<Lmetric>(seed); }

}  // namespace roost::router

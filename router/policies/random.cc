// random: a random worker, each with equal probability. No parameters.
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

class Random final : public ScanningPolicy {
 public:
  explicit Random(std::uint64_t seed) : ScanningPolicy("random", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& /*query*/, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    return {rng().Below(prospects.size()), DecisionReason::kRandom};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeRandom(std::uint64_t seed) { return std::make_unique<Random>(seed); }

}  // namespace roost::router

// power-of-two: draws two random workers and takes the one with fewer of this router's requests in flight, or the first
// if they are equal (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001). No parameters.
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

class PowerOfTwo final : public ScanningPolicy {
 public:
  explicit PowerOfTwo(std::uint64_t seed) : ScanningPolicy("power-of-two", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& /*query*/, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    const std::size_t first = rng().Below(prospects.size());
    if (prospects.size() == 1) return {first, DecisionReason::kMinLoad};
    std::size_t second = rng().Below(prospects.size() - 1);
    if (second >= first) ++second;  // never the same one
    const auto load = [&](std::size_t index) { return prospects[index].worker->in_flight_requests; };
    return {load(second) < load(first) ? second : first, DecisionReason::kMinLoad};
  }
};

}  // namespace

std::unique_ptr<Policy> MakePowerOfTwo(std::uint64_t seed) { return std::make_unique<PowerOfTwo>(seed); }

}  // namespace roost::router

// least-requests: the worker to which this router has the fewest requests in flight; a random one of several equals. As
// in Envoy's LEAST_REQUEST with a full scan, nginx's least_conn and the "least outstanding" of inference gateways. No
// parameters.
#include "router/policies/baselines.h"
#include "router/policies/scanning_policy.h"

namespace roost::router {

namespace {

class LeastRequests final : public ScanningPolicy {
 public:
  explicit LeastRequests(std::uint64_t seed) : ScanningPolicy("least-requests", seed) {}

 protected:
  [[nodiscard]] Pick PickFrom(const RouteQuery& /*query*/, std::span<const Prospect> prospects,
                              const FleetView& /*fleet*/) override {
    return {LeastInFlight(prospects), DecisionReason::kMinLoad};
  }
};

}  // namespace

std::unique_ptr<Policy> MakeLeastRequests(std::uint64_t seed) { return std::make_unique<LeastRequests>(seed); }

}  // namespace roost::router

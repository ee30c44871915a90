// round-robin: one worker after the other, in the order of their slots, regardless of their caches and loads. The
// default of most HTTP load balancers. No parameters.
#include "router/policies/baselines.h"
#include "router/route/candidates.h"
#include "router/route/rotation.h"

namespace roost::router {

namespace {

class RoundRobin final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "round-robin"; }

  [[nodiscard]] std::optional<Decision> Choose(const RouteQuery& query, const FleetView& fleet) override {
    const WorkerView* const worker = rotation_.Next(query, fleet);
    if (worker == nullptr) return std::nullopt;
    return Decide(query, fleet, worker->slot, DecisionReason::kRotation);
  }

 private:
  Rotation rotation_;
};

}  // namespace

std::unique_ptr<Policy> MakeRoundRobin() { return std::make_unique<RoundRobin>(); }

}  // namespace roost::router

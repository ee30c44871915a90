#include "router/route/rotation.h"

namespace roost::router {

const WorkerView* Rotation::Next(const RouteQuery& query, const FleetView& fleet) {
  const auto found = last_.find(fleet.number());
  std::optional<WorkerSlot> at;
  if (found != last_.end()) at = found->second;
  for (std::size_t passed = 0; passed < fleet.size(); ++passed) {
    const WorkerView* const worker = fleet.NextAfter(at);
    at = worker->slot;
    if (!MayTake(query, *worker)) continue;
    if (!query.is_question) last_.insert_or_assign(fleet.number(), worker->slot);
    return worker;
  }
  return nullptr;
}

}  // namespace roost::router

// Turns by slot, apart for each fleet: workers that come and go do not upset the others' turns.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "router/route/policy.h"

namespace roost::router {

class Rotation {
 public:
  // The next one that may take the request, whose turn this is; null when there is none. O(1) but for workers that are
  // passed over.
  [[nodiscard]] const WorkerView* Next(const RouteQuery& query, const FleetView& fleet);

 private:
  std::unordered_map<std::uint32_t, WorkerSlot> last_;  // by fleet number
};

}  // namespace roost::router

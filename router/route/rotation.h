// Round robin by slot, for each fleet. Workers that join or leave do not change the others' turns.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "router/route/policy.h"

namespace roost::router {

class Rotation {
 public:
  // The next worker that may take the request; null when there is none. O(1), plus the workers that are skipped.
  [[nodiscard]] const WorkerView* Next(const RouteQuery& query, const FleetView& fleet);

 private:
  std::unordered_map<std::uint32_t, WorkerSlot> last_;  // by fleet number
};

}  // namespace roost::router

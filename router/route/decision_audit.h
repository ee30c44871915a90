// Compares a decision with the best of its candidates, and with round robin, which takes its turns in the shadow over
// the same fleet.
//
// The shadow sees the caches as the real policy has filled them. So it tells what round robin would have given this one
// request, not what a cluster under round robin would give.
#pragma once

#include <cstdint>

#include "router/route/policy.h"
#include "router/route/rotation.h"

namespace roost::router {

struct DecisionAudit {
  std::uint32_t regret_tokens = 0;  // cached tokens of the longest match beyond those of the chosen worker
  double regret_seconds = 0;        // predicted time to first token beyond that of the fastest candidate
  std::uint32_t rotation_matched_tokens = 0;
  double rotation_ttft_seconds = 0;
};

// Not thread-safe.
class DecisionAuditor {
 public:
  // Compares a decision for this query and fleet. O(matches).
  [[nodiscard]] DecisionAudit Audit(const RouteQuery& query, const FleetView& fleet, const Decision& decision);

 private:
  Rotation rotation_;
};

}  // namespace roost::router

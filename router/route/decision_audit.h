// What a decision gave away, and what it saved: measured against the best that its candidates offered, and against
// round robin, which takes its turns in the shadow over the same fleet.
//
// The shadow sees the caches as the real policy has filled them, so it says what round robin would have got for this
// one request, not what it would get if it had always ruled.
#pragma once

#include <cstdint>

#include "router/route/policy.h"
#include "router/route/rotation.h"

namespace roost::router {

struct DecisionAudit {
  std::uint32_t regret_tokens = 0;  // that the deepest holder had beyond the chosen one
  double regret_seconds = 0;        // predicted time to first token over the least one of a candidate
  std::uint32_t rotation_matched_tokens = 0;
  double rotation_ttft_seconds = 0;
};

// Not thread-safe.
class DecisionAuditor {
 public:
  // Of a decision that was made for this query and fleet. O(matches).
  [[nodiscard]] DecisionAudit Audit(const RouteQuery& query, const FleetView& fleet, const Decision& decision);

 private:
  Rotation rotation_;
};

}  // namespace roost::router

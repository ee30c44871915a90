// Compares a decision with the best of its candidates, and with a shadow round robin, which only takes turns over the
// same fleet and sends nothing.
//
// The shadow sees the caches as the real policy has filled them. So it shows what round robin would have given this one
// request, not what a cluster under round robin would give.
#pragma once

#include <cstdint>

#include "router/route/policy.h"
#include "router/route/rotation.h"

namespace roost::router {

struct DecisionAudit {
  std::uint32_t most_matched_tokens = 0;  // of the longest match
  std::uint32_t regret_tokens = 0;        // those beyond the chosen worker's
  double regret_seconds = 0;              // predicted time to first token minus that of the fastest candidate
  double regret_whole_seconds = 0;        // the same of the whole answer
  std::uint32_t rotation_matched_tokens = 0;
  double rotation_ttft_seconds = 0;
  double rotation_whole_seconds = 0;
  double rotation_token_seconds = 0;  // see CacheWorth
  double rotation_wait_seconds = 0;   // the same
};

// After the decision has taken its final worker. `audit` is of the worker for the whole request, if the prompt is
// computed apart.
[[nodiscard]] CacheWorth WorthOf(const FleetView& fleet, const Decision& decision, const DecisionAudit& audit);

// Not thread-safe.
class DecisionAuditor {
 public:
  // Compares a decision for this query and fleet. O(matches).
  [[nodiscard]] DecisionAudit Audit(const RouteQuery& query, const FleetView& fleet, const Decision& decision);

 private:
  Rotation rotation_;
};

}  // namespace roost::router

// GET /admin/v1/decisions: its query, and its body.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/route/decision_log.h"

namespace roost::router {

struct DecisionsQuery {
  static constexpr std::size_t kDefaultLimit = 20;

  std::optional<std::string> request_id;  // the decision of this request; if empty:
  std::size_t limit = kDefaultLimit;      // this many of the last decisions
};

// Parses "request_id=ID" or "limit=N", N from 1 to DecisionLog::kCapacity. kInvalidArgument names the parameter.
[[nodiscard]] Result<DecisionsQuery> ParseDecisionsQuery(std::string_view query);

// {"decisions": [...]}, in the order of `records`.
[[nodiscard]] std::string DecisionsBody(std::span<const DecisionRecord> records, Instant now);

}  // namespace roost::router

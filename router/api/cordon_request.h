// POST /admin/v1/cordon, /admin/v1/uncordon and /admin/v1/drain: JSON to an order about one worker, and its answer.
//
//   {"worker": "worker-a"}                      no new requests for it; or requests again
//   {"worker": "worker-a", "wait_ms": 60000}    drain alone: the answer waits that long for its requests to end
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/worker_answer.h"

namespace roost::router {

enum class CordonVerb : std::uint8_t { kCordon, kUncordon, kDrain };

// Errors name the field.
[[nodiscard]] Result<CordonOrder> ParseCordonRequest(const JsonObject& body, CordonVerb verb);

// {"worker", "answered": true, "cordoned", "idle", "running_requests", "waiting_requests", "in_flight_requests"}, or
// {"worker", "answered": false, "reason"}.
[[nodiscard]] std::string CordonBody(const WorkerAnswer& answer);

}  // namespace roost::router

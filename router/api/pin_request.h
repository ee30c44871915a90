// POST /admin/v1/pin and /admin/v1/unpin: JSON to an order for the workers. The prompt is given as prompt_request.h
// says; of a chat the front is pinned, not a question. Beside it:
//
//   {…, "duration_ms": 600000}     how long; until unpinned when absent
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/prompt.h"
#include "router/api/prompt_request.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct PinRequest {
  PromptRequest prompt;
  std::uint64_t duration_ms = 0;  // 0: until unpinned
  WorkerChoice workers;
};

// Errors name the field.
[[nodiscard]] Result<PinRequest> ParsePinRequest(const JsonObject& body);

enum class PinAction { kPin, kUnpin };

// What a prompt comes to.
struct PinPlan {
  PinOrder order;
  std::size_t prompt_token_count = 0;
  std::size_t block_count = 0;
};

// An error when the prompt fills no block, or is longer than the model's
// context.
[[nodiscard]] Result<PinPlan> MakePinPlan(std::shared_ptr<const ServedModel> model, const PinRequest& request,
                                          PinAction action, const RenderSettings& settings);

}  // namespace roost::router

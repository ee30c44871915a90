// POST /admin/v1/pin and /admin/v1/unpin: JSON to an order for the workers. The body has a prompt, as in
// prompt_request.h; a chat is pinned as the front of conversations, not as a question. In addition:
//
//   {…, "duration_ms": 600000}     how long to pin; absent: until unpinned
//
// In place of a prompt it may have "hash": then the block with this hash and all before it are meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/prompt.h"
#include "router/api/prompt_request.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct PinRequest {
  PromptRequest prompt;  // unless there is a block
  std::optional<BlockHash> block;
  std::uint64_t duration_ms = 0;  // 0: until unpinned
  WorkerChoice workers;
};

// Errors name the field.
[[nodiscard]] Result<PinRequest> ParsePinRequest(const JsonObject& body);

enum class PinAction { kPin, kUnpin };

// The order that a request becomes, and the prompt's size.
struct PinPlan {
  PinOrder order;
  std::size_t prompt_token_count = 0;
  std::size_t block_count = 0;
};

// The order for a block: `model` is a revision that has it.
[[nodiscard]] PinOrder MakeBlockOrder(std::shared_ptr<const ServedModel> model, const PinRequest& request,
                                      PinAction action);
// An error when the prompt is shorter than a block or longer than the model's context.
[[nodiscard]] Result<PinPlan> MakePinPlan(std::shared_ptr<const ServedModel> model, const PinRequest& request,
                                          PinAction action, const RenderSettings& settings);

}  // namespace roost::router

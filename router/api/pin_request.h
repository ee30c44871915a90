// POST /admin/v1/pin and /admin/v1/unpin: JSON to an order for the workers. The prompt is given as for chat and
// completions, and is rendered, tokenized and hashed as there, so that the blocks are the ones that requests ask for:
//
//   {"model": "m", "messages": […], "tools": […]}     a chat, by default without the generation prompt at its end: what
//                                                     is pinned is the front of conversations, not a question
//   {"model": "m", "prompt": "text", "cache_salt": "s", "duration_ms": 600000, "workers": "best"}
//
// Only full blocks are pinned. Where a text goes on, its last token may come out differently, and so its last block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "router/api/chat_request.h"
#include "router/api/completion_request.h"
#include "router/api/json_object.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct PinRequest {
  std::variant<ChatRequest, CompletionRequest> prompt;
  std::uint64_t duration_ms = 0;  // 0: until unpinned
  PinTarget target = PinTarget::kAllWorkers;

  [[nodiscard]] const SamplingFields& fields() const;
  // The field that the prompt came from.
  [[nodiscard]] std::string_view prompt_field() const;
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

// `unix_seconds` is the time that templates see. An error when the prompt fills no block, or is longer than the model's
// context.
[[nodiscard]] Result<PinPlan> MakePinPlan(std::shared_ptr<const ServedModel> model, const PinRequest& request,
                                          PinAction action, std::int64_t unix_seconds);

}  // namespace roost::router

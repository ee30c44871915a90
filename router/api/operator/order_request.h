// Operators' requests that name a prompt, a tenant or a block in the workers' caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/requests/prompt_request.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// POST /admin/v1/evict: JSON to an order to erase a prompt, or all of a tenant, from the workers' caches.
//
//   {"model": "m", "prompt": "text"}                 as prompt_request.h says; of a chat the front is meant
//   {"model": "m", "messages": […], "tenant": "a"}   the same of a tenant's prompt
//   {"hash": "3f…"}                                  a block with all that continues it; "model" may be given
//   {"tenant": "a"}                                  all of the tenant, of all models
//   {"tenant": "a", "model": "m"}                    … of one
//
// and "workers": "all" or ["worker-a", …].
struct EvictRequest {
  std::string model;   // empty, without a prompt: all
  std::string tenant;  // empty: none; a prompt has the same
  std::optional<PromptRequest> prompt;
  std::optional<BlockHash> block;  // without it and a prompt there is a tenant
  WorkerChoice workers;
};

// Errors name the field.
[[nodiscard]] Result<EvictRequest> ParseEvictRequest(const JsonObject& body);

// POST /admin/v1/pin and /admin/v1/unpin: JSON to an order for the workers. The body has a prompt, as in
// prompt_request.h; a chat is pinned as the front of conversations, not as a question. In addition:
//
//   {…, "duration_ms": 600000}     how long to pin; absent: until unpinned
//
// In place of a prompt it may have "hash": then the block with this hash and all before it are meant.
struct PinRequest {
  PromptRequest prompt;  // unless there is a block
  std::optional<BlockHash> block;
  std::uint64_t duration_ms = 0;  // 0: until unpinned
  WorkerChoice workers;
};

// Errors name the field.
[[nodiscard]] Result<PinRequest> ParsePinRequest(const JsonObject& body);

}  // namespace roost::router

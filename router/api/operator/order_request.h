// Operators' orders: their JSON to orders for the workers, and the workers' answers to JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/requests/prompt.h"
#include "router/api/requests/prompt_request.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/worker_answer.h"

namespace roost::router {

// POST /admin/v1/cordon, /admin/v1/uncordon and /admin/v1/drain: JSON to an order about one worker, and its answer.
//
//   {"worker": "worker-a"}                      no new requests for it; or requests again
//   {"worker": "worker-a", "wait_ms": 60000}    drain alone: the answer waits that long for its requests to end
enum class CordonVerb : std::uint8_t { kCordon, kUncordon, kDrain };

// Errors name the field.
[[nodiscard]] Result<CordonOrder> ParseCordonRequest(const JsonObject& body, CordonVerb verb);

// {"worker", "answered": true, "cordoned", "idle", "running_requests", "waiting_requests", "in_flight_requests"}, or
// {"worker", "answered": false, "reason"}.
[[nodiscard]] std::string CordonBody(const WorkerAnswer& answer);

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

struct EvictPlan {
  EvictOrder order;
  // The prompt's size, as the first revision counts it.
  std::size_t prompt_token_count = 0;
  std::size_t block_count = 0;
};

// `revisions` are those of the request's model that are served; at least one if it has a prompt. A prompt may be
// shorter than a block. kContextTooLong when it is longer than the model's context.
[[nodiscard]] Result<EvictPlan> MakeEvictPlan(std::span<const std::shared_ptr<const ServedModel>> revisions,
                                              const EvictRequest& request, const RenderSettings& settings);

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

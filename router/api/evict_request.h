// POST /admin/v1/evict: JSON to an order to erase a prompt, or all of a tenant, from the workers' caches.
//
//   {"model": "m", "prompt": "text"}                 as prompt_request.h says; of a chat the front is meant
//   {"model": "m", "messages": […], "tenant": "a"}   the same of a tenant's prompt
//   {"hash": "3f…"}                                  a block with all that continues it; "model" may be given
//   {"tenant": "a"}                                  all of the tenant, of all models
//   {"tenant": "a", "model": "m"}                    … of one
//
// and "workers": "all" or ["worker-a", …].
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/prompt.h"
#include "router/api/prompt_request.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

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

}  // namespace roost::router

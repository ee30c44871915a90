// The part that pins, warm-ups and match queries have in common: a prompt, as for chat and completions, and the workers
// that it concerns. The prompt is rendered, tokenized and hashed as in a real request, so that the blocks are the same:
//
//   {"model": "m", "messages": […], "tools": […], "cache_salt": "s"}
//   {"model": "m", "prompt": "text", "tenant": "acme", "workers": "all" | "best" | ["worker-a", …]}
//
// Only full blocks have a hash. If a text continues, its last token, and so its last block, may come out differently.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "router/api/json_object.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/prompt.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct PromptRequest {
  std::variant<ChatRequest, CompletionRequest> prompt;
  std::string tenant;  // the owner of the blocks; empty: those of requests without a key

  [[nodiscard]] const SamplingFields& fields() const;
  // The request's field with the prompt.
  [[nodiscard]] std::string_view prompt_field() const;
};

// The part that a chat stands for: the common front of conversations, or one complete question. A front has no
// generation prompt at its end, unless `add_generation_prompt` asks for it.
enum class ChatPart { kFront, kQuestion };

// Errors name the field.
[[nodiscard]] Result<PromptRequest> ParsePromptRequest(const JsonObject& body, ChatPart part);
[[nodiscard]] Result<std::string> ParseTenant(const JsonObject& body);
// Field `hash`: a block's name as GET /admin/v1/prefixes tells it, in place of a prompt. Empty when there is none.
[[nodiscard]] Result<std::optional<BlockHash>> ParseBlockHash(const JsonObject& body);
[[nodiscard]] Result<WorkerChoice> ParseWorkerChoice(const JsonObject& body);

// The prompt as workers see it, with the hashes of its full blocks.
struct HashedPrompt {
  std::vector<TokenId> tokens;
  BlockHash root;
  std::optional<OwnScope> own;
  std::vector<BlockHash> hashes;
};

// kContextTooLong when the prompt is longer than the model's context.
[[nodiscard]] Result<HashedPrompt> HashPrompt(const ServedModel& model, const PromptRequest& request,
                                              const RenderSettings& settings);
// The same, and an error when the prompt is shorter than a block.
[[nodiscard]] Result<HashedPrompt> HashBlocksOfPrompt(const ServedModel& model, const PromptRequest& request,
                                                      const RenderSettings& settings);

}  // namespace roost::router

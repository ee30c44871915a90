// POST /v1/completions: JSON to a validated request.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/requests/request_field.h"
#include "router/api/requests/sampling_fields.h"

namespace roost::router {

// Limits on the prompts of one request, and on the choices of all its prompts together.
inline constexpr std::size_t kMaxPrompts = 1024;
inline constexpr std::size_t kMaxChoicesOfAll = 2048;

// Text to tokenize, or token ids.
struct CompletionPrompt {
  std::variant<std::string, std::vector<TokenId>> value;
  std::string path = "prompt";  // names it in errors
};

enum class Echo { kNone, kPrompt };

struct CompletionRequest {
  SamplingFields sampling;
  std::vector<CompletionPrompt> prompts;  // at least one
  Echo echo = Echo::kNone;                // kPrompt: the answer's text begins with the prompt's
};

// Errors name the field. Unknown fields at the top level are ignored.
[[nodiscard]] Result<CompletionRequest> ParseCompletionRequest(const JsonObject& body);

// The table of a completion's own fields; those of sampling_fields.h and cache_fields.h come in addition.
[[nodiscard]] std::span<const RequestField<CompletionRequest>> CompletionFieldTable();

}  // namespace roost::router

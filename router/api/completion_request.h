// POST /v1/completions: JSON to a validated request.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/sampling_fields.h"

namespace roost::router {

struct CompletionRequest {
  SamplingFields sampling;
  // Text to tokenize, or token ids as they are. One prompt per request; OpenAI's list form may hold one.
  std::variant<std::string, std::vector<TokenId>> prompt;
};

// Errors name the field. Unknown fields at the top level are ignored.
[[nodiscard]] Result<CompletionRequest> ParseCompletionRequest(const JsonObject& body);

}  // namespace roost::router

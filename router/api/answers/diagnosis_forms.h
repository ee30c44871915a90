// A diagnosis of the prompt's cache in the forms of the APIs. Each tells only of a request that the client has named.
#pragma once

#include <string>

#include "router/api/answer.h"

namespace roost::router {

// The value of `diagnostics` in Anthropic's API: null, or {"cache_miss_reason": {"type",
// "cache_missed_input_tokens"?}}.
[[nodiscard]] std::string AnthropicDiagnostics(const Usage& usage);

// The value of `prompt_cache_diagnostics` in OpenAI's: {"type", …}.
[[nodiscard]] std::string OpenAiDiagnostics(const Usage& usage);

}  // namespace roost::router

// POST /v1/chat/completions: JSON to a validated request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/text/jinja/value.h"
#include "router/api/json_object.h"
#include "router/api/request_field.h"
#include "router/api/sampling_fields.h"
#include "router/api/tool_set.h"

namespace roost::router {

// Messages as templates expect them: every member that the client sent, with these changes:
//   - an array of text parts is joined into one string;
//   - a tool call's `arguments`, JSON in a string for OpenAI's API, are an object.
struct ChatRequest {
  SamplingFields sampling;
  jinja::Value messages;
  jinja::Value tools;      // a list, or none; none too with tool_choice "none"
  ToolSet tool_set;        // the same, to read the answer by
  jinja::Value documents;  // a list, or none
  // chat_template_kwargs: variables for the template beside those that the API sets. A dict.
  jinja::Value template_variables = jinja::Value::Mapping({});
  Logprobs logprobs = Logprobs::kOmit;
  std::optional<std::uint32_t> top_logprobs;
  std::string reasoning_effort;  // for the template; empty: not set
  enum class Reasoning { kSeparate, kInContent } reasoning = Reasoning::kSeparate;
  // The end of the prompt: the beginning of an answer, nothing, or the last message left open, so that the answer
  // continues it.
  enum class GenerationPrompt { kAdd, kOmit, kContinue } generation_prompt = GenerationPrompt::kAdd;
};

// Errors name the field. Unknown fields at the top level are ignored, as OpenAI's clients add some.
[[nodiscard]] Result<ChatRequest> ParseChatRequest(const JsonObject& body);

// The table of a chat's own fields, beside those of sampling_fields.h and cache_fields.h.
[[nodiscard]] std::span<const RequestField<ChatRequest>> ChatFieldTable();

}  // namespace roost::router

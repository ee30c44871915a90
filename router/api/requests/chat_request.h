// POST /v1/chat/completions: JSON to a validated request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"
#include "router/api/json_object.h"
#include "router/api/requests/cache_fields.h"
#include "router/api/requests/request_field.h"
#include "router/api/requests/sampling_fields.h"
#include "router/api/tool_set.h"

namespace roost::router {

// Messages as templates expect them: every member that the client sent, with these changes:
//   - an array of text parts is joined into one string, a line for each;
//   - a tool call's `arguments`, which OpenAI's API sends as JSON in a string, become an object. A text that is no JSON
//     object stays a text.
struct ChatRequest {
  SamplingFields sampling;
  // The breakpoints for the cache, front to back.
  struct Mark {
    CacheBreakpoint breakpoint;
    std::optional<std::size_t> message;  // none: behind the tools
    std::optional<std::size_t> bytes;    // of the message's text that are before it; none: behind the whole message
  };
  std::vector<Mark> marks;
  jinja::Value messages;
  jinja::Value tools;  // a list, or none; also none with tool_choice "none"
  ToolSet tool_set;    // the same, for parsing the answer; without those that tool_choice does not allow
  // `tools` without these, for models whose calls can not be held to names.
  jinja::Value allowed_tools;
  jinja::Value documents;  // a list, or none
  // chat_template_kwargs: a dict of template variables, in addition to those that the API sets.
  jinja::Value template_variables = jinja::Value::Mapping({});
  Logprobs logprobs = Logprobs::kOmit;
  std::optional<std::uint32_t> top_logprobs;
  std::uint32_t dropped_reasoning_count = 0;  // items of reasoning that a translation left out
  std::string reasoning_effort;               // for the template; empty: not set
  enum class Reasoning { kSeparate, kInContent } reasoning = Reasoning::kSeparate;
  // The end of the prompt: the start of an assistant message, none, or the last message, so that the answer continues
  // it.
  enum class GenerationPrompt { kAdd, kOmit, kContinue } generation_prompt = GenerationPrompt::kAdd;
};

// Errors name the field. Unknown fields at the top level are ignored, because OpenAI's clients add some.
[[nodiscard]] Result<ChatRequest> ParseChatRequest(const JsonObject& body);

// The table of a chat's own fields; those of sampling_fields.h and cache_fields.h come in addition.
[[nodiscard]] std::span<const RequestField<ChatRequest>> ChatFieldTable();

}  // namespace roost::router

// Messages and tools in the forms that a model's chat template renders (common/text/template_traits.h).
//
//   developer         → system, where the template does not know the role
//   leading ones      → system and developer messages in front of all others become one, joined with a blank line
//   a system message  → where the template drops or refuses it at its place, user text at that place: in front of the
//                       user message that follows it directly, else behind the user message (or, where the template
//                       takes no user message behind a tool's result, the result) before it, else a user message
//   user, user        → one message, joined with a blank line, where the template refuses two
//   reasoning         → reasoning_content, reasoning and thinking are one, under the name that the template reads;
//   beside
//                       tool calls with the text behind it, where the template refuses both
//   several calls     → of a message: a message for each with its result behind it, where the template shows one alone
//   arguments         → of an earlier tool call that are a text, where the template needs an object: {"arguments":
//   text} content null      → beside tool calls, "" where the template refuses null call ids          → of another form
//   than the template takes: of that form, the call's and its result's alike a result's name   → that of its call,
//   where the template needs one content           → [{"type": "text", "text": …}] where the template reads parts tools
//   → with empty descriptions, also of parameters, and empty parameters where the template needs them
//
// The form of a message depends on its neighbours up to the next answer only, so that the next turn of a conversation
// begins with the text of this one and finds it in the cache.
//
// Pure. Values come back as they are where nothing is to change.
#pragma once

#include <cstdint>

#include "common/text/jinja/value.h"
#include "common/text/template_traits.h"

namespace roost::router {

// `messages`: a list of dicts with a `role`, as in ChatRequest. Contents stay texts.
[[nodiscard]] jinja::Value MessagesForTemplate(const jinja::Value& messages, const TemplateTraits& traits);
// The result of MessagesForTemplate with contents as parts, where the template reads these.
[[nodiscard]] jinja::Value WithContentForms(const jinja::Value& messages, const TemplateTraits& traits);

// `tools`: a list as in ChatRequest, or none.
[[nodiscard]] jinja::Value ToolsForTemplate(const jinja::Value& tools, const TemplateTraits& traits);

// The calls in the messages' history.
[[nodiscard]] std::uint32_t CountCalls(const jinja::Value& messages);

}  // namespace roost::router

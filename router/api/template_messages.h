// Messages in the forms that a model's chat template renders (common/text/template_traits.h).
//
//   developer         → system, where the template does not know the role
//   leading ones      → system and developer messages in front of all others become one, joined with a blank line
//   a system message  → where the template drops or refuses it at its place, user text at that place: in front of the
//                       user message that follows it directly, else behind the user message (or, where the template
//                       takes no user message behind a tool's result, the result) before it, else a user message
//   user, user        → one message, joined with a blank line, where the template refuses two
//   arguments         → of an earlier tool call that are a text, where the template needs an object: {"arguments":
//   text} content null      → beside tool calls, "" where the template refuses null
//
// The form of a message depends on its neighbours up to the next answer only, so that the next turn of a conversation
// begins with the text of this one and finds it in the cache.
#pragma once

#include "common/text/jinja/value.h"
#include "common/text/template_traits.h"

namespace roost::router {

// `messages`: a list of dicts with a `role`, as in ChatRequest. Returns it as it is where nothing is to change.
[[nodiscard]] jinja::Value MessagesForTemplate(const jinja::Value& messages, const TemplateTraits& traits);

}  // namespace roost::router

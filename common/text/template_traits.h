// A chat template's treatment of messages that APIs allow and many templates do not know. Found by rendering short
// marked conversations when the template is parsed: a mark that is missing from the text, or out of its place, was
// dropped.
//
//   [system "m1", user "m2", assistant "m3", system "m4", user "m5"]  ──render──►  …m2…m3…m5…    m4 is dropped
//
// A router gives such messages a form that the template renders (router/api/requests/prompt.h); a worker and
// `roostctl doctor` say what is dropped. Costs some thirty short renders with small limits, whatever the template does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"
#include "common/text/output_family.h"

namespace roost {

class ChatTemplate;

enum class Rendering : std::uint8_t {
  kShown,
  kDropped,  // left out without an error, or moved to another place
  kRefused,  // the template ends with an error
};

// The form of a message's `content`: a text, or [{"type": "text", "text": …}].
enum class ContentForm : std::uint8_t { kText, kParts };

// The ids of calls and results that it takes: any, those of nine letters and digits (Mistral), or functions.NAME:N,
// where N counts the calls of the conversation (Kimi).
enum class CallIdForm : std::uint8_t { kAny, kNine, kNumbered };

struct TemplateTraits {
  Rendering first_system = Rendering::kShown;
  Rendering first_developer = Rendering::kShown;
  Rendering later_system = Rendering::kShown;  // behind other messages
  Rendering later_developer = Rendering::kShown;
  Rendering adjacent_users = Rendering::kShown;
  Rendering user_after_tool = Rendering::kShown;
  Rendering tools = Rendering::kShown;
  Rendering tool_calls = Rendering::kShown;  // with `content` none
  Rendering tool_results = Rendering::kShown;
  Rendering text_beside_calls = Rendering::kShown;
  Rendering empty_text_beside_calls = Rendering::kShown;  // tool calls with `content` ""
  Rendering text_arguments = Rendering::kShown;           // of tool calls: a string instead of an object
  Rendering several_calls = Rendering::kShown;            // in one message
  Rendering unnamed_result = Rendering::kShown;           // a tool's result without `name`
  Rendering reasoning = Rendering::kDropped;              // of an earlier answer, under one of its names
  Rendering reasoning_and_text = Rendering::kShown;       // both beside tool calls
  std::string_view reasoning_name = "reasoning_content";  // of those that clients use
  Rendering tool_without_description = Rendering::kShown;
  Rendering tool_without_parameters = Rendering::kShown;
  Rendering tool_without_properties = Rendering::kShown;  // "parameters": {"type": "object"}
  Rendering property_without_description = Rendering::kShown;
  ContentForm system_content = ContentForm::kText;
  ContentForm user_content = ContentForm::kText;
  ContentForm assistant_content = ContentForm::kText;
  ContentForm result_content = ContentForm::kText;
  CallIdForm call_ids = CallIdForm::kAny;

  bool operator==(const TemplateTraits&) const = default;
};

using RenderContext = std::function<Result<std::string>(const jinja::Value& context)>;

// All kShown for a template that does not even render a user's message and an answer: nothing is known of it.
[[nodiscard]] TemplateTraits FindTraits(const RenderContext& render, OutputFamily family);

// The parts of messages that the template drops or refuses, and what happens instead, in words: for logs and `roostctl
// doctor`; and the parts of answers in a form that is not known. Empty when nothing is lost.
[[nodiscard]] std::vector<std::string> LossesOf(const TemplateTraits& traits, OutputFamily family);

// The text that the template writes behind an answer; "" when it can not be told.
[[nodiscard]] std::string TextBehindAnswer(const ChatTemplate& chat_template, std::string_view bos_token,
                                           std::string_view eos_token);

}  // namespace roost

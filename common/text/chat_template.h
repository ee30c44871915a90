// A model's chat template: Jinja source, as Hugging Face models ship it, that turns messages into prompt text.
//
// Renders like Jinja2 with trim_blocks and lstrip_blocks and Hugging Face's helpers (tojson, raise_exception,
// strftime_now, break and continue, the generation tag). Templates come with models and contexts from clients; neither
// is trusted. Parsing is limited in size and nesting, rendering in steps, memory, output and depth, and a template can
// read nothing but its context. An error says which limit was exceeded.
//
// Immutable after Parse and shared by threads; Render may run in many at once.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/traced_text.h"
#include "common/text/jinja/value.h"
#include "common/text/output_family.h"
#include "common/text/template_traits.h"

namespace roost {

namespace jinja {
struct TemplateTree;
}

struct RenderOptions {
  std::tm now{};  // local time, for strftime_now; see LocalTime
  jinja::Limits limits;
};

// For short conversations that find out what a template does: small limits.
[[nodiscard]] RenderOptions ProbeOptions();

// `time` in this machine's time zone. Thread-safe.
[[nodiscard]] std::tm LocalTime(std::time_t time);

// A source that is made of several templates asks for a name with this test, and raises this where none has it.
inline constexpr std::string_view kUnknownTemplateName = "no chat template has this name";
inline constexpr std::string_view kTemplateNameTest = "chat_template is defined and chat_template == ";

class ChatTemplate {
 public:
  // `source_name` is a file's or model's name; errors name it and the line.
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source, std::string source_name);

  // `context` is a dict: messages, tools, documents, add_generation_prompt, bos_token, eos_token and whatever else the
  // template reads. It must hold no values that a running template made. raise_exception ends in an ordinary error.
  [[nodiscard]] Result<std::string> Render(const jinja::Value& context, const RenderOptions& options) const;
  // The same, with the ranges that the template's author wrote (traced_text.h).
  [[nodiscard]] Result<jinja::TracedText> RenderTraced(const jinja::Value& context, const RenderOptions& options) const;

  [[nodiscard]] const std::string& source_name() const { return source_name_; }
  // The output family of models that come with this template.
  [[nodiscard]] OutputFamily family() const { return family_; }
  // Its treatment of messages that not every template knows.
  [[nodiscard]] const TemplateTraits& traits() const { return traits_; }
  // True if it is made of several, of which the variable `chat_template` names one.
  [[nodiscard]] bool has_names() const { return has_names_; }

 private:
  ChatTemplate(std::string source_name, OutputFamily family, std::unique_ptr<const jinja::TemplateTree> tree);

  std::string source_name_;
  OutputFamily family_;
  TemplateTraits traits_;  // set by Parse
  bool has_names_ = false;
  std::shared_ptr<const jinja::TemplateTree> tree_;
};

}  // namespace roost

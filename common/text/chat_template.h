// A model's chat template: Jinja source, as Hugging Face models carry it, that turns messages into prompt text.
//
// Renders what Jinja2 renders with trim_blocks and lstrip_blocks and Hugging Face's helpers (tojson, raise_exception,
// strftime_now, break and continue, the generation tag). Templates come with models and contexts from clients; neither
// is trusted: parsing is bounded in size and nesting, rendering in steps, memory, output and depth, and a template
// reaches nothing but its context. What exceeds a bound is an error that says which.
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

namespace roost {

namespace jinja {
struct TemplateTree;
}

struct RenderOptions {
  std::tm now{};  // local time, for strftime_now; see LocalTime
  jinja::Limits limits;
};

// `time` as the calendar and clock of this machine's time zone show it. Thread-safe.
[[nodiscard]] std::tm LocalTime(std::time_t time);

class ChatTemplate {
 public:
  // `source_name` stands in errors: a file's or model's name. Errors name it and the line.
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source, std::string source_name);

  // `context` is a dict: messages, tools, documents, add_generation_prompt, bos_token, eos_token and what else the
  // template knows. It must hold no values that a running template made. What raise_exception says is an error as any.
  [[nodiscard]] Result<std::string> Render(const jinja::Value& context, const RenderOptions& options) const;
  // The same, and which of it the template's author wrote (traced_text.h).
  [[nodiscard]] Result<jinja::TracedText> RenderTraced(const jinja::Value& context, const RenderOptions& options) const;

  [[nodiscard]] const std::string& source_name() const { return source_name_; }

 private:
  ChatTemplate(std::string source_name, std::unique_ptr<const jinja::TemplateTree> tree);

  std::string source_name_;
  std::shared_ptr<const jinja::TemplateTree> tree_;
};

}  // namespace roost

#include "common/text/chat_template.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/utf8.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/parse/parser.h"

namespace roost {

RenderOptions ProbeOptions() {
  constexpr std::uint64_t kSteps = 200'000;
  constexpr std::size_t kBytes = std::size_t{1} << 20U;
  RenderOptions options;
  options.now.tm_mday = 1;
  options.limits.steps = kSteps;
  options.limits.value_bytes = kBytes;
  options.limits.text_bytes = kBytes;
  return options;
}

std::tm LocalTime(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  return local;
}

ChatTemplate::ChatTemplate(std::string told_name, OutputFamily family, std::unique_ptr<const jinja::TemplateTree> tree)
    : source_name_(std::move(told_name)), family_(family), tree_(std::move(tree)) {}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source, std::string source_name) {
  std::string told_name = source_name.empty() ? "chat template" : "chat template " + std::move(source_name);
  Result<jinja::TemplateTree> tree = jinja::ParseTemplate(source);
  if (!tree.ok()) {
    Error error = std::move(tree).error();
    error.message = fmt::format("{}: {}", told_name, error.message);
    return error;
  }
  auto owned = std::make_unique<const jinja::TemplateTree>(std::move(tree).value());
  std::shared_ptr<ChatTemplate> parsed(new ChatTemplate(std::move(told_name), FamilyOf(source), std::move(owned)));
  parsed->has_names_ = source.find(kTemplateNameTest) != std::string_view::npos;
  parsed->traits_ =
      FindTraits([&](const jinja::Value& context) { return parsed->Render(context, ProbeOptions()); }, parsed->family_);
  return std::shared_ptr<const ChatTemplate>(std::move(parsed));
}

Result<std::string> ChatTemplate::Render(const jinja::Value& context, const RenderOptions& options) const {
  ROOST_ASSIGN_OR_RETURN(jinja::TracedText text, RenderTraced(context, options));
  return std::move(text.bytes);
}

Result<jinja::TracedText> ChatTemplate::RenderTraced(const jinja::Value& context, const RenderOptions& options) const {
  jinja::Runtime runtime(options.limits, options.now);
  jinja::Interpreter interpreter(*tree_, context, runtime);
  Result<jinja::TracedText> text = interpreter.Render();
  if (text.ok()) return text;
  Error error = std::move(text).error();
  // The message may quote what the template was given, and it goes to clients and logs.
  constexpr std::size_t kMaxMessageBytes = 4096;
  const std::string_view kept = std::string_view(error.message).substr(0, kMaxMessageBytes);
  error.message.resize(kept.size() - IncompleteUtf8Suffix(kept));
  error.message = fmt::format("{}, line {}: {}", source_name_, interpreter.line(), error.message);
  return error;
}

}  // namespace roost

#include "common/text/template_traits.h"

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "common/text/chat_template.h"

namespace roost {
namespace {

using jinja::Dict;
using jinja::Value;

// Words that no template writes by itself, in the order of the conversation.
constexpr std::string_view kOne = "qxmarkone";
constexpr std::string_view kTwo = "qxmarktwo";
constexpr std::string_view kThree = "qxmarkthree";
constexpr std::string_view kFour = "qxmarkfour";
// Some templates take ids of nine characters only.
constexpr std::string_view kCallId = "abcdefghi";

Value Text(std::string_view text) { return Value::String(std::string(text)); }

Value Message(std::string_view role, Value content) {
  Dict message;
  message.Set("role", Value::WrittenString(std::string(role)));
  message.Set("content", std::move(content));
  return Value::Mapping(std::move(message));
}

Value Said(std::string_view role, std::string_view mark) { return Message(role, Text(mark)); }

Value ObjectArguments(std::string_view mark) {
  Dict arguments;
  arguments.Set("place", Text(mark));
  return Value::Mapping(std::move(arguments));
}

Value Call(Value content, Value arguments) {
  Dict function;
  function.Set("name", Text("look"));
  function.Set("arguments", std::move(arguments));
  Dict call;
  call.Set("id", Text(kCallId));
  call.Set("type", Text("function"));
  call.Set("function", Value::Mapping(std::move(function)));
  Dict message;
  message.Set("role", Value::WrittenString("assistant"));
  message.Set("content", std::move(content));
  message.Set("tool_calls", Value::List({Value::Mapping(std::move(call))}));
  return Value::Mapping(std::move(message));
}

Value ToolResult(std::string_view mark) {
  Dict message;
  message.Set("role", Value::WrittenString("tool"));
  message.Set("tool_call_id", Text(kCallId));
  message.Set("name", Text("look"));
  message.Set("content", Text(mark));
  return Value::Mapping(std::move(message));
}

Value Tool(std::string_view name) {
  Dict parameters;
  parameters.Set("type", Text("object"));
  parameters.Set("properties", Value::Mapping({}));
  Dict function;
  function.Set("name", Text(name));
  function.Set("description", Text("Looks."));
  function.Set("parameters", Value::Mapping(std::move(parameters)));
  Dict tool;
  tool.Set("type", Text("function"));
  tool.Set("function", Value::Mapping(std::move(function)));
  return Value::Mapping(std::move(tool));
}

Value Context(std::vector<Value> messages, Value tools, std::string_view bos_token, std::string_view eos_token) {
  Dict context;
  context.Set("messages", Value::List(std::move(messages)));
  context.Set("tools", std::move(tools));
  context.Set("documents", Value::None());
  context.Set("add_generation_prompt", Value::Bool(false));
  context.Set("bos_token", Value::WrittenString(std::string(bos_token)));
  context.Set("eos_token", Value::WrittenString(std::string(eos_token)));
  return Value::Mapping(std::move(context));
}

bool ShowsInOrder(std::string_view text, std::initializer_list<std::string_view> marks) {
  std::size_t at = 0;
  for (const std::string_view mark : marks) {
    at = text.find(mark, at);
    if (at == std::string_view::npos) return false;
    at += mark.size();
  }
  return true;
}

class Probe {
 public:
  explicit Probe(const RenderContext& render) : render_(render) {}

  [[nodiscard]] Rendering Of(std::vector<Value> messages, std::initializer_list<std::string_view> marks,
                             Value tools = Value::None()) const {
    const Result<std::string> text = render_(Context(std::move(messages), std::move(tools), "", ""));
    if (!text.ok()) return Rendering::kRefused;
    return ShowsInOrder(*text, marks) ? Rendering::kShown : Rendering::kDropped;
  }

 private:
  const RenderContext& render_;
};

void FindRoles(const Probe& probe, TemplateTraits& traits) {
  const auto first = [&](std::string_view role) {
    return probe.Of({Said(role, kOne), Said("user", kTwo)}, {kOne, kTwo});
  };
  const auto later = [&](std::string_view role) {
    return probe.Of({Said("user", kOne), Said("assistant", kTwo), Said(role, kThree), Said("user", kFour)},
                    {kOne, kTwo, kThree, kFour});
  };
  traits.first_system = first("system");
  traits.first_developer = first("developer");
  traits.later_system = later("system");
  traits.later_developer = later("developer");
  traits.adjacent_users = probe.Of({Said("user", kOne), Said("user", kTwo)}, {kOne, kTwo});
}

void FindTools(const Probe& probe, TemplateTraits& traits) {
  const Value user = Said("user", kOne);
  const Value result = ToolResult(kThree);
  const Value call = Call(Value::None(), ObjectArguments(kTwo));
  traits.tools = probe.Of({user}, {kTwo}, Value::List({Tool(kTwo)}));
  traits.tool_calls = probe.Of({user, call, result}, {kOne, kTwo});
  const Value empty_call = Call(Text(""), ObjectArguments(kTwo));
  traits.empty_text_beside_calls = probe.Of({user, empty_call, result}, {kOne, kTwo});
  // A template that refuses a `content` of none is asked with an empty one.
  const bool takes_none = traits.tool_calls != Rendering::kRefused;
  const Value& usual = takes_none ? call : empty_call;
  traits.tool_results = probe.Of({user, usual, result}, {kOne, kThree});
  traits.user_after_tool = probe.Of({user, usual, result, Said("user", kFour)}, {kOne, kFour});
  traits.text_beside_calls = probe.Of({user, Call(Text(kFour), ObjectArguments(kTwo)), result}, {kOne, kFour});
  const Value content = takes_none ? Value::None() : Text("");
  traits.text_arguments = probe.Of({user, Call(content, Text(kTwo)), result}, {kOne, kTwo});
}

}  // namespace

TemplateTraits FindTraits(const RenderContext& render) {
  const Probe probe(render);
  TemplateTraits traits;
  if (probe.Of({Said("user", kOne), Said("assistant", kTwo), Said("user", kThree)}, {kOne, kTwo, kThree}) !=
      Rendering::kShown) {
    return traits;
  }
  FindRoles(probe, traits);
  FindTools(probe, traits);
  return traits;
}

std::vector<std::string> LossesOf(const TemplateTraits& traits) {
  struct Loss {
    Rendering rendering;
    std::string_view what;
    std::string_view instead;
  };
  // Calls whose content is refused for being none go with an empty one.
  const Rendering calls = traits.tool_calls == Rendering::kRefused ? traits.empty_text_beside_calls : traits.tool_calls;
  const bool has_calls = calls == Rendering::kShown;
  const std::vector<Loss> all{
      {traits.first_system, "a system message", "its text goes in front of the first user message"},
      {traits.first_developer, "a developer message", "it is given as a system message"},
      {traits.later_system, "a system message behind others", "its text goes into the user message at its place"},
      {traits.tools, "tools", "the model does not see them"},
      {calls, "tool calls in the history", "the model does not see them"},
      {traits.tool_results, "tool results", "the model does not see them"},
      {has_calls ? traits.text_beside_calls : Rendering::kShown, "text beside tool calls", "the model does not see it"},
  };
  std::vector<std::string> losses;
  for (const Loss& loss : all) {
    if (loss.rendering == Rendering::kDropped) losses.push_back(fmt::format("drops {}: {}", loss.what, loss.instead));
    if (loss.rendering != Rendering::kRefused) continue;
    // Only a system or developer message has another form to go in.
    const bool is_lost = loss.instead.starts_with("the model");
    losses.push_back(fmt::format("refuses {}: {}", loss.what, is_lost ? "such a request is a 400" : loss.instead));
  }
  return losses;
}

std::string TextBehindAnswer(const ChatTemplate& chat_template, std::string_view bos_token,
                             std::string_view eos_token) {
  const Value context = Context({Said("user", kOne), Said("assistant", kTwo)}, Value::None(), bos_token, eos_token);
  const Result<std::string> text = chat_template.Render(context, ProbeOptions());
  if (!text.ok()) return "";
  const std::size_t at = text->rfind(kTwo);
  return at == std::string::npos ? "" : text->substr(at + kTwo.size());
}

}  // namespace roost

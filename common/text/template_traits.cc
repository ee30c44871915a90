#include "common/text/template_traits.h"

#include <fmt/format.h>

#include <array>
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
constexpr std::string_view kFive = "qxmarkfive";
// Some templates take ids of nine characters only.
constexpr std::string_view kNineId = "abcdefghi";
constexpr std::string_view kLongId = "call_0123456789abcdefghijklmn";

constexpr auto kReasoningNames = std::to_array<std::string_view>({"reasoning_content", "reasoning", "thinking"});

Value Text(std::string_view text) { return Value::String(std::string(text)); }

Value Object(const std::vector<std::pair<std::string_view, Value>>& members) {
  Dict object;
  for (const auto& [name, value] : members) object.Set(name, value);
  return Value::Mapping(std::move(object));
}

Value Without(const Value& object, std::string_view name) {
  Dict changed;
  for (const Dict::Entry& entry : object.AsDict().entries()) {
    if (!entry.key.is(jinja::Kind::kString) || entry.key.AsString() != name) changed.Set(entry.key, entry.value);
  }
  return Value::Mapping(std::move(changed));
}

Value ObjectArguments(std::string_view mark) { return Object({{"place", Text(mark)}}); }

Value CallOf(std::string_view id, Value arguments) {
  Value function = Object({{"name", Text("look")}, {"arguments", std::move(arguments)}});
  return Object({{"id", Text(id)}, {"type", Text("function")}, {"function", std::move(function)}});
}

Value Tool(std::string_view name) {
  Value parameters = Object({{"type", Text("object")}, {"properties", Value::Mapping({})}});
  Value function =
      Object({{"name", Text(name)}, {"description", Text("Looks.")}, {"parameters", std::move(parameters)}});
  return Object({{"type", Text("function")}, {"function", std::move(function)}});
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

// Messages in the forms that are known so far.
class Probe {
 public:
  Probe(const RenderContext& render, const TemplateTraits& traits) : render_(render), traits_(traits) {}

  [[nodiscard]] Rendering Of(std::vector<Value> messages, std::initializer_list<std::string_view> marks,
                             Value tools = Value::None()) const {
    const Result<std::string> text = render_(Context(std::move(messages), std::move(tools), "", ""));
    if (!text.ok()) return Rendering::kRefused;
    return ShowsInOrder(*text, marks) ? Rendering::kShown : Rendering::kDropped;
  }

  [[nodiscard]] static Value Words(ContentForm form, std::string_view mark) {
    if (form == ContentForm::kText) return Text(mark);
    return Value::List({Object({{"type", Text("text")}, {"text", Text(mark)}})});
  }
  [[nodiscard]] static Value Message(std::string_view role, Value content) {
    return Object({{"role", Value::WrittenString(std::string(role))}, {"content", std::move(content)}});
  }
  [[nodiscard]] Value Said(std::string_view role, std::string_view mark) const {
    const ContentForm form = role == "user"        ? traits_.user_content
                             : role == "assistant" ? traits_.assistant_content
                                                   : traits_.system_content;
    return Message(role, Words(form, mark));
  }
  // An answer with a text, or with none.
  [[nodiscard]] Value Calls(Value content, std::vector<Value> calls) const {
    return WithMember(Message("assistant", std::move(content)), "tool_calls", Value::List(std::move(calls)));
  }
  [[nodiscard]] Value Answer(std::string_view text) const { return Words(traits_.assistant_content, text); }
  [[nodiscard]] Value ToolResult(std::string_view id, std::string_view mark) const {
    const Value message = Message("tool", Words(traits_.result_content, mark));
    return WithMember(WithMember(message, "tool_call_id", Text(id)), "name", Text("look"));
  }

 private:
  const RenderContext& render_;
  const TemplateTraits& traits_;
};

// The forms in which questions and answers are shown; false if there are none.
bool FindContentForms(const Probe& probe, TemplateTraits& traits) {
  using enum ContentForm;
  for (const auto& [user, assistant] : {std::pair(kText, kText), {kParts, kParts}, {kParts, kText}, {kText, kParts}}) {
    traits.user_content = user;
    traits.assistant_content = assistant;
    if (probe.Of({probe.Said("user", kOne), probe.Said("assistant", kTwo), probe.Said("user", kThree)},
                 {kOne, kTwo, kThree}) == Rendering::kShown) {
      traits.system_content = traits.result_content = user;
      return true;
    }
  }
  return false;
}

void FindRoles(const Probe& probe, TemplateTraits& traits) {
  const auto first = [&](std::string_view role) {
    return probe.Of({probe.Said(role, kOne), probe.Said("user", kTwo)}, {kOne, kTwo});
  };
  const auto later = [&](std::string_view role) {
    return probe.Of(
        {probe.Said("user", kOne), probe.Said("assistant", kTwo), probe.Said(role, kThree), probe.Said("user", kFour)},
        {kOne, kTwo, kThree, kFour});
  };
  traits.first_system = first("system");
  if (traits.first_system != Rendering::kShown) {
    const ContentForm usual = traits.system_content;
    traits.system_content = usual == ContentForm::kText ? ContentForm::kParts : ContentForm::kText;
    traits.first_system = first("system");
    if (traits.first_system != Rendering::kShown) {
      traits.system_content = usual;
      traits.first_system = first("system");
    }
  }
  traits.first_developer = first("developer");
  traits.later_system = later("system");
  traits.later_developer = later("developer");
  traits.adjacent_users = probe.Of({probe.Said("user", kOne), probe.Said("user", kTwo)}, {kOne, kTwo});
}

void FindTools(const Probe& probe, TemplateTraits& traits) {
  const Value user = probe.Said("user", kOne);
  const Value tool = Tool(kTwo);
  const auto shows = [&](Value changed) { return probe.Of({user}, {kTwo}, Value::List({std::move(changed)})); };
  traits.tools = shows(tool);
  if (traits.tools != Rendering::kShown) return;
  const Value function = *tool.AsDict().Find("function");
  const auto with_function = [&](Value changed) { return shows(WithMember(tool, "function", std::move(changed))); };
  traits.tool_without_description = with_function(Without(function, "description"));
  traits.tool_without_parameters = with_function(Without(function, "parameters"));
  const Value no_properties = Object({{"type", Text("object")}});
  traits.tool_without_properties = with_function(WithMember(function, "parameters", no_properties));
  const auto with_property = [&](Value property) {
    const Value parameters = WithMember(no_properties, "properties", Object({{"place", std::move(property)}}));
    return with_function(WithMember(function, "parameters", parameters));
  };
  const Value plain = Object({{"type", Text("string")}});
  if (with_property(WithMember(plain, "description", Text("Where."))) == Rendering::kShown) {
    traits.property_without_description = with_property(plain);
  }
}

void FindCalls(const Probe& probe, TemplateTraits& traits) {
  const Value user = probe.Said("user", kOne);
  std::string_view id = kNineId;
  const auto with = [&](Value content, Value arguments) {
    return probe.Calls(std::move(content), {CallOf(id, std::move(arguments))});
  };
  traits.tool_calls =
      probe.Of({user, with(Value::None(), ObjectArguments(kTwo)), probe.ToolResult(id, kThree)}, {kOne, kTwo});
  traits.empty_text_beside_calls =
      probe.Of({user, with(probe.Answer(""), ObjectArguments(kTwo)), probe.ToolResult(id, kThree)}, {kOne, kTwo});
  // A template that refuses a `content` of none is asked with an empty one.
  const Value content = traits.tool_calls != Rendering::kRefused ? Value::None() : probe.Answer("");
  const Value usual = with(content, ObjectArguments(kTwo));
  const auto results = [&] { return probe.Of({user, usual, probe.ToolResult(id, kThree)}, {kOne, kThree}); };
  traits.tool_results = results();
  if (traits.tool_results != Rendering::kShown) {
    const ContentForm usual_form = traits.result_content;
    traits.result_content = usual_form == ContentForm::kText ? ContentForm::kParts : ContentForm::kText;
    if (results() == Rendering::kShown) {
      traits.tool_results = Rendering::kShown;
    } else {
      traits.result_content = usual_form;
    }
  }
  const Value result = probe.ToolResult(id, kThree);
  traits.user_after_tool = probe.Of({user, usual, result, probe.Said("user", kFour)}, {kOne, kFour});
  traits.text_beside_calls = probe.Of({user, with(probe.Answer(kFour), ObjectArguments(kTwo)), result}, {kOne, kFour});
  traits.text_arguments = probe.Of({user, with(content, Text(kTwo)), result}, {kOne, kTwo});
  const bool shows_calls = probe.Of({user, usual, result}, {kOne, kTwo}) == Rendering::kShown;
  if (traits.tool_results == Rendering::kShown) {
    traits.unnamed_result = probe.Of({user, usual, Without(result, "name")}, {kOne, kThree});
  }
  if (!shows_calls) return;
  constexpr std::string_view kOtherId = "jklmnopqr";
  const Value two =
      probe.Calls(content, {CallOf(id, ObjectArguments(kTwo)), CallOf(kOtherId, ObjectArguments(kThree))});
  traits.several_calls =
      probe.Of({user, two, probe.ToolResult(id, kFour), probe.ToolResult(kOtherId, kFive)}, {kOne, kTwo, kThree});
  const Value long_id = probe.Calls(content, {CallOf(kLongId, ObjectArguments(kTwo))});
  if (probe.Of({user, long_id, probe.ToolResult(kLongId, kThree)}, {kOne, kTwo}) != Rendering::kShown) {
    traits.call_ids = CallIdForm::kNine;
  }
}

void FindReasoning(const Probe& probe, TemplateTraits& traits) {
  const Value user = probe.Said("user", kOne);
  const Value content = traits.tool_calls != Rendering::kRefused ? Value::None() : probe.Answer("");
  const Value call = probe.Calls(content, {CallOf(kNineId, ObjectArguments(kTwo))});
  const Value result = probe.ToolResult(kNineId, kThree);
  traits.reasoning = Rendering::kDropped;
  for (const std::string_view name : kReasoningNames) {
    const bool beside_calls =
        probe.Of({user, WithMember(call, name, Text(kFour)), result}, {kOne, kFour}) == Rendering::kShown;
    const Value answer = WithMember(probe.Said("assistant", kTwo), name, Text(kFour));
    if (!beside_calls && probe.Of({user, answer}, {kOne, kFour}) != Rendering::kShown) continue;
    traits.reasoning = Rendering::kShown;
    traits.reasoning_name = name;
    if (!beside_calls || traits.text_beside_calls != Rendering::kShown) return;
    const Value both = WithMember(WithMember(call, "content", probe.Answer(kFive)), name, Text(kFour));
    traits.reasoning_and_text = probe.Of({user, both, result}, {kOne, kFour, kFive});
    return;
  }
}

}  // namespace

TemplateTraits FindTraits(const RenderContext& render, OutputFamily family) {
  TemplateTraits traits;
  const Probe probe(render, traits);
  if (!FindContentForms(probe, traits)) return {};
  FindRoles(probe, traits);
  FindTools(probe, traits);
  FindCalls(probe, traits);
  FindReasoning(probe, traits);
  if (family.tools == ToolFamily::kKimi) traits.call_ids = CallIdForm::kNumbered;
  return traits;
}

std::vector<std::string> LossesOf(const TemplateTraits& traits, OutputFamily family) {
  struct Loss {
    Rendering rendering;
    std::string_view what;
    std::string_view instead;
  };
  // Calls whose content is refused for being none go with an empty one.
  const Rendering calls = traits.tool_calls == Rendering::kRefused ? traits.empty_text_beside_calls : traits.tool_calls;
  const bool has_calls = calls == Rendering::kShown;
  const bool reasons = family.reasoning != ReasoningForm::kNone || family.tools == ToolFamily::kHarmony;
  const std::vector<Loss> all{
      {traits.first_system, "a system message", "its text goes in front of the first user message"},
      {traits.first_developer, "a developer message", "it is given as a system message"},
      {traits.later_system, "a system message behind others", "its text goes into the user message at its place"},
      {traits.tools, "tools", "the model does not see them"},
      {calls, "tool calls in the history", "the model does not see them"},
      {traits.tool_results, "tool results", "the model does not see them"},
      {reasons ? traits.reasoning : Rendering::kShown, "reasoning of earlier answers", "the model does not see it"},
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
  if (family.tools == ToolFamily::kNone && traits.tools == Rendering::kShown && traits != TemplateTraits()) {
    losses.emplace_back(
        "shows tools, but the form of the model's calls is not known: calls stay text (--tool-parser of the router "
        "names "
        "a form)");
  }
  if (!reasons && traits.reasoning == Rendering::kShown) {
    losses.emplace_back("shows reasoning, but its tags are not known: reasoning stays in the text");
  }
  return losses;
}

std::string TextBehindAnswer(const ChatTemplate& chat_template, std::string_view bos_token,
                             std::string_view eos_token) {
  const TemplateTraits& traits = chat_template.traits();
  const Value context = Context({Probe::Message("user", Probe::Words(traits.user_content, kOne)),
                                 Probe::Message("assistant", Probe::Words(traits.assistant_content, kTwo))},
                                Value::None(), bos_token, eos_token);
  const Result<std::string> text = chat_template.Render(context, ProbeOptions());
  if (!text.ok()) return "";
  const std::size_t at = text->rfind(kTwo);
  return at == std::string::npos ? "" : text->substr(at + kTwo.size());
}

}  // namespace roost

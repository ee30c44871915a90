#include "router/api/requests/template_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;

constexpr std::string_view kBetween = "\n\n";

std::string_view RoleOf(const Value& message) {
  const Value* role = message.AsDict().Find("role");
  return role != nullptr && role->is(Kind::kString) ? std::string_view(role->AsString()) : std::string_view();
}

std::string MessageText(const Value& message) {
  const Value* content = message.AsDict().Find("content");
  return content != nullptr && content->is(Kind::kString) ? content->AsString() : std::string();
}

bool IsInstruction(const Value& message) { return RoleOf(message) == "system" || RoleOf(message) == "developer"; }

Value WithText(const Value& message, std::string text) {
  return WithMember(message, "content", Value::String(std::move(text)));
}

Value WithRole(const Value& message, std::string_view role) {
  if (RoleOf(message) == role) return message;
  return WithMember(message, "role", Value::WrittenString(std::string(role)));
}

std::string Joined(std::string first, std::string_view second) {
  if (first.empty() || second.empty()) return first.append(second);
  return first.append(kBetween).append(second);
}

// ---- one message by itself ----

// The call with an object for arguments that are a text.
Value WithObjectArguments(const Value& call) {
  const Value* function = call.is(Kind::kDict) ? call.AsDict().Find("function") : nullptr;
  if (function == nullptr || !function->is(Kind::kDict)) return call;
  const Value* arguments = function->AsDict().Find("arguments");
  if (arguments == nullptr || !arguments->is(Kind::kString)) return call;
  Dict object;
  object.Set("arguments", *arguments);
  return WithMember(call, "function", WithMember(*function, "arguments", Value::Mapping(std::move(object))));
}

Value CallsForTemplate(Value message, const TemplateTraits& traits) {
  const Value* calls = message.AsDict().Find("tool_calls");
  if (calls == nullptr || !calls->is(Kind::kSequence)) return message;
  if (traits.text_arguments != Rendering::kShown && traits.tool_calls != Rendering::kDropped) {
    std::vector<Value> changed;
    for (const Value& call : calls->AsSequence().items) changed.push_back(WithObjectArguments(call));
    message = WithMember(message, "tool_calls", Value::List(std::move(changed)));
  }
  const Value* content = message.AsDict().Find("content");
  const bool is_none = content == nullptr || content->is(Kind::kNone);
  const bool needs_text =
      traits.tool_calls == Rendering::kRefused && traits.empty_text_beside_calls != Rendering::kRefused;
  return is_none && needs_text ? WithText(message, "") : message;
}

// ---- calls and results ----

const std::vector<Value>& CallsOf(const Value& message) {
  static const std::vector<Value> none;
  const Value* calls = message.AsDict().Find("tool_calls");
  return calls != nullptr && calls->is(Kind::kSequence) ? calls->AsSequence().items : none;
}

std::string_view StringAt(const Value& object, std::string_view name) {
  const Value* value = object.is(Kind::kDict) ? object.AsDict().Find(name) : nullptr;
  return value != nullptr && value->is(Kind::kString) ? std::string_view(value->AsString()) : std::string_view();
}

std::string_view NameOfCall(const Value& call) {
  const Value* function = call.is(Kind::kDict) ? call.AsDict().Find("function") : nullptr;
  return function == nullptr ? std::string_view() : StringAt(*function, "name");
}

bool IsNine(std::string_view id) {
  constexpr std::size_t kSize = 9;
  return id.size() == kSize && std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

// Nine letters and digits that depend on the id alone, so that the next turn has them too.
std::string NineOf(std::string_view id) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  Rng random(hash);
  std::string nine;
  while (nine.size() < 9) nine += kLetters[random.Below(kLetters.size())];
  return nine;
}

// Gives calls and results the ids, and results the names, that a template takes.
class CallNames {
 public:
  explicit CallNames(const TemplateTraits& traits) : traits_(traits) {}

  Value Named(const Value& message) {
    if (RoleOf(message) == "tool") return NamedResult(message);
    if (CallsOf(message).empty()) return message;
    open_.clear();
    std::vector<Value> calls;
    for (const Value& call : CallsOf(message)) {
      Open open{std::string(StringAt(call, "id")), {}, std::string(NameOfCall(call))};
      open.told = IdFor(open);
      ++count_;
      const bool is_same = !call.is(Kind::kDict) || (open.told == open.given && !StringAt(call, "type").empty());
      calls.push_back(
          is_same ? call
                  : WithMember(WithMember(call, "id", Value::String(open.told)), "type", Value::String("function")));
      open_.push_back(std::move(open));
    }
    return WithMember(message, "tool_calls", Value::List(std::move(calls)));
  }

 private:
  struct Open {
    std::string given;
    std::string told;
    std::string name;
    bool is_answered = false;
  };

  [[nodiscard]] std::string IdFor(const Open& call) const {
    switch (traits_.call_ids) {
      case CallIdForm::kAny: break;
      case CallIdForm::kNine:
        return IsNine(call.given) ? call.given
                                  : NineOf(call.given.empty() ? fmt::format("{}:{}", call.name, count_) : call.given);
      case CallIdForm::kNumbered: return fmt::format("functions.{}:{}", call.name, count_);
    }
    return call.given;
  }

  // A result without an id is that of the first call without a result.
  Value NamedResult(const Value& result) {
    const std::string_view id = StringAt(result, "tool_call_id");
    const auto call = std::find_if(open_.begin(), open_.end(), [id](const Open& each) {
      return id.empty() ? !each.is_answered : each.given == id;
    });
    if (call == open_.end()) {
      const bool needs_nine = traits_.call_ids == CallIdForm::kNine && !IsNine(id);
      return needs_nine ? WithMember(result, "tool_call_id", Value::String(NineOf(id))) : result;
    }
    call->is_answered = true;
    Value named = call->told == id ? result : WithMember(result, "tool_call_id", Value::String(call->told));
    const bool needs_name = traits_.unnamed_result != Rendering::kShown && StringAt(result, "name").empty();
    return needs_name ? WithMember(named, "name", Value::String(call->name)) : named;
  }

  const TemplateTraits& traits_;
  std::vector<Open> open_;  // the calls of the last answer that made some
  std::size_t count_ = 0;
};

// Appends a message for each of an answer's calls, with its results behind it; returns how many results these are.
std::size_t AppendSplit(const Value& answer, std::span<const Value> behind, std::vector<Value>& messages) {
  const auto end =
      std::find_if_not(behind.begin(), behind.end(), [](const Value& each) { return RoleOf(each) == "tool"; });
  const auto results = static_cast<std::size_t>(end - behind.begin());
  std::vector<bool> is_used(results);
  const std::vector<Value>& calls = CallsOf(answer);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Dict one;
    for (const Dict::Entry& entry : answer.AsDict().entries()) {
      const bool is_role = entry.key.is(Kind::kString) && entry.key.AsString() == "role";
      if (i == 0 || is_role) one.Set(entry.key, entry.value);
    }
    if (i > 0) one.Set("content", Value::None());
    one.Set("tool_calls", Value::List({calls[i]}));
    messages.push_back(Value::Mapping(std::move(one)));
    for (std::size_t k = 0; k < results; ++k) {
      const bool is_last = i + 1 == calls.size();
      const bool is_its = StringAt(behind[k], "tool_call_id") == StringAt(calls[i], "id");
      if (is_used[k] || (!is_its && !is_last)) continue;
      messages.push_back(behind[k]);
      is_used[k] = true;
    }
  }
  return results;
}

// ---- reasoning ----

constexpr auto kReasoningNames = std::to_array<std::string_view>({"reasoning_content", "reasoning", "thinking"});

bool IsReasoningName(const Value& key) {
  return key.is(Kind::kString) &&
         std::find(kReasoningNames.begin(), kReasoningNames.end(), key.AsString()) != kReasoningNames.end();
}

Value WithReasoning(const Value& message, const TemplateTraits& traits) {
  std::string_view reasoning;
  for (const std::string_view name : kReasoningNames) {
    if (reasoning.empty()) reasoning = StringAt(message, name);
  }
  if (reasoning.empty() || RoleOf(message) != "assistant") return message;
  const std::string text = MessageText(message);
  const bool joins = !CallsOf(message).empty() && !text.empty() && traits.reasoning_and_text != Rendering::kShown;
  Dict changed;
  for (const Dict::Entry& entry : message.AsDict().entries()) {
    if (!IsReasoningName(entry.key)) changed.Set(entry.key, entry.value);
  }
  changed.Set(traits.reasoning_name,
              Value::String(joins ? Joined(std::string(reasoning), text) : std::string(reasoning)));
  if (joins) changed.Set("content", Value::None());
  return Value::Mapping(std::move(changed));
}

// ---- the conversation ----

class Conversation {
 public:
  explicit Conversation(const TemplateTraits& traits) : traits_(traits) {}

  // The system and developer messages in front of all others.
  void AddLeading(std::vector<Value> run) {
    if (run.empty()) return;
    const bool all_developer =
        std::all_of(run.begin(), run.end(), [](const Value& each) { return RoleOf(each) == "developer"; });
    const bool takes_system = traits_.first_system == Rendering::kShown;
    const bool takes_developer = traits_.first_developer == Rendering::kShown;
    std::string text = MessageText(run.front());
    for (std::size_t i = 1; i < run.size(); ++i) text = Joined(std::move(text), MessageText(run[i]));
    if (!takes_system && !takes_developer) return AddAsUserText(text);
    const bool is_developer = takes_developer && (all_developer || !takes_system);
    const Value message = WithRole(run.front(), is_developer ? "developer" : "system");
    messages_.push_back(run.size() == 1 ? message : WithText(message, std::move(text)));
  }

  void Add(const Value& message) {
    if (!IsInstruction(message)) return AddOther(message);
    if (RoleOf(message) == "developer" && traits_.later_developer == Rendering::kShown) return AddOther(message);
    if (traits_.later_system == Rendering::kShown) return AddOther(WithRole(message, "system"));
    AddAsUserText(MessageText(message));
  }

  std::vector<Value> Take() {
    Settle();
    return std::move(messages_);
  }

 private:
  // Waits for the message that follows.
  void AddAsUserText(std::string_view text) { waiting_ = Joined(std::move(waiting_), text); }

  void AddOther(const Value& message) {
    if (RoleOf(message) == "user") return AddUser(message);
    Settle();
    messages_.push_back(CallsForTemplate(message, traits_));
  }

  void AddUser(const Value& message) {
    if (user_ && traits_.adjacent_users != Rendering::kShown) {
      behind_ = Joined(Joined(std::move(behind_), std::exchange(waiting_, {})), MessageText(message));
      return;
    }
    FlushUser();
    user_ = message;
    in_front_ = std::exchange(waiting_, {});
  }

  // The next message is no user message: gives waiting text its place.
  void Settle() {
    if (user_) {
      behind_ = Joined(std::move(behind_), std::exchange(waiting_, {}));
      return FlushUser();
    }
    if (waiting_.empty()) return;
    std::string text = std::exchange(waiting_, {});
    const bool behind_result = !messages_.empty() && RoleOf(messages_.back()) == "tool";
    const bool joins_result = traits_.user_after_tool != Rendering::kShown && traits_.tool_results == Rendering::kShown;
    if (behind_result && joins_result) {
      messages_.back() = WithText(messages_.back(), Joined(MessageText(messages_.back()), text));
      return;
    }
    Dict message;
    message.Set("role", Value::WrittenString("user"));
    message.Set("content", Value::String(std::move(text)));
    messages_.push_back(Value::Mapping(std::move(message)));
  }

  void FlushUser() {
    if (!user_) return;
    std::string front = std::exchange(in_front_, {});
    const std::string behind = std::exchange(behind_, {});
    const bool is_same = front.empty() && behind.empty();
    messages_.push_back(is_same ? *user_
                                : WithText(*user_, Joined(Joined(std::move(front), MessageText(*user_)), behind)));
    user_.reset();
  }

  const TemplateTraits& traits_;
  std::vector<Value> messages_;
  std::string waiting_;  // system text whose place is not known yet
  // The last user message, to which more text may come. Empty when another message followed.
  std::optional<Value> user_;
  std::string in_front_;
  std::string behind_;
};

// ---- the whole ----

// The messages with calls, results and reasoning in their forms.
std::vector<Value> Prepared(const std::vector<Value>& given, const TemplateTraits& traits) {
  CallNames names(traits);
  std::vector<Value> named;
  named.reserve(given.size());
  for (const Value& message : given) named.push_back(WithReasoning(names.Named(message), traits));
  if (traits.several_calls == Rendering::kShown) return named;
  std::vector<Value> split;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (CallsOf(named[i]).size() > 1) {
      i += AppendSplit(named[i], std::span(named).subspan(i + 1), split);
    } else {
      split.push_back(named[i]);
    }
  }
  return split;
}

// True if a message has calls, results or reasoning.
bool HasForms(const Value& message) {
  const Dict& members = message.AsDict();
  return RoleOf(message) == "tool" || members.Find("tool_calls") != nullptr ||
         std::any_of(kReasoningNames.begin(), kReasoningNames.end(),
                     [&members](std::string_view name) { return members.Find(name) != nullptr; });
}

// ---- tools ----

bool IsAbsent(const Value& object, std::string_view name) {
  const Value* value = object.AsDict().Find(name);
  return value == nullptr || value->is(Kind::kNone);
}

// Null is absent, as everywhere.
Value WithoutNull(const Value& object, std::string_view name) {
  const Value* value = object.AsDict().Find(name);
  if (value == nullptr || !value->is(Kind::kNone)) return object;
  Dict changed;
  for (const Dict::Entry& entry : object.AsDict().entries()) {
    if (!entry.key.is(Kind::kString) || entry.key.AsString() != name) changed.Set(entry.key, entry.value);
  }
  return Value::Mapping(std::move(changed));
}

// An empty description for each of a function's parameters that has none.
Value WithDescribedProperties(const Value& function) {
  const Value* parameters = function.AsDict().Find("parameters");
  const Value* properties =
      parameters != nullptr && parameters->is(Kind::kDict) ? parameters->AsDict().Find("properties") : nullptr;
  if (properties == nullptr || !properties->is(Kind::kDict)) return function;
  Dict described;
  for (const Dict::Entry& entry : properties->AsDict().entries()) {
    const bool lacks_one = entry.value.is(Kind::kDict) && IsAbsent(entry.value, "description");
    described.Set(entry.key, lacks_one ? WithMember(entry.value, "description", Value::String("")) : entry.value);
  }
  return WithMember(function, "parameters",
                    WithMember(*parameters, "properties", Value::Mapping(std::move(described))));
}

Value ToolForTemplate(const Value& tool, const TemplateTraits& traits) {
  const Value* given = tool.is(Kind::kDict) ? tool.AsDict().Find("function") : nullptr;
  if (given == nullptr || !given->is(Kind::kDict)) return tool;
  Value function = WithoutNull(WithoutNull(*given, "description"), "parameters");
  if (traits.tool_without_description != Rendering::kShown && IsAbsent(function, "description")) {
    function = WithMember(function, "description", Value::String(""));
  }
  if (traits.tool_without_parameters != Rendering::kShown && IsAbsent(function, "parameters")) {
    Dict parameters;
    parameters.Set("type", Value::String("object"));
    parameters.Set("properties", Value::Mapping({}));
    function = WithMember(function, "parameters", Value::Mapping(std::move(parameters)));
  }
  const Value* parameters = function.AsDict().Find("parameters");
  const bool is_object = parameters != nullptr && parameters->is(Kind::kDict);
  if (is_object && traits.tool_without_properties != Rendering::kShown && IsAbsent(*parameters, "properties")) {
    function = WithMember(function, "parameters", WithMember(*parameters, "properties", Value::Mapping({})));
  }
  if (traits.property_without_description != Rendering::kShown) function = WithDescribedProperties(function);
  const Value typed = IsAbsent(tool, "type") ? WithMember(tool, "type", Value::String("function")) : tool;
  return WithMember(typed, "function", std::move(function));
}

}  // namespace

Value MessagesForTemplate(const Value& messages, const TemplateTraits& traits) {
  const std::vector<Value>& given = messages.AsSequence().items;
  const auto first = std::find_if_not(given.begin(), given.end(), &IsInstruction);
  const bool has_later = std::any_of(first, given.end(), &IsInstruction);
  const bool has_forms = std::any_of(first, given.end(), &HasForms);
  if (traits == TemplateTraits() && first - given.begin() <= 1 && !has_later && !has_forms) return messages;
  const std::vector<Value> prepared = Prepared(given, traits);
  const auto rest = std::find_if_not(prepared.begin(), prepared.end(), &IsInstruction);
  Conversation conversation(traits);
  conversation.AddLeading({prepared.begin(), rest});
  for (auto each = rest; each != prepared.end(); ++each) conversation.Add(*each);
  return Value::List(conversation.Take());
}

Value WithContentForms(const Value& messages, const TemplateTraits& traits) {
  const auto form = [&traits](std::string_view role) {
    if (role == "user") return traits.user_content;
    if (role == "assistant") return traits.assistant_content;
    return role == "tool" ? traits.result_content : traits.system_content;
  };
  std::vector<Value> changed;
  for (const Value& message : messages.AsSequence().items) {
    const Value* content = message.AsDict().Find("content");
    const bool is_text = content != nullptr && content->is(Kind::kString);
    if (!is_text || form(RoleOf(message)) == ContentForm::kText) {
      changed.push_back(message);
      continue;
    }
    Dict part;
    part.Set("type", Value::WrittenString("text"));
    part.Set("text", *content);
    changed.push_back(WithMember(message, "content", Value::List({Value::Mapping(std::move(part))})));
  }
  return Value::List(std::move(changed));
}

Value ToolsForTemplate(const Value& tools, const TemplateTraits& traits) {
  if (!tools.is(Kind::kSequence)) return tools;
  std::vector<Value> changed;
  for (const Value& tool : tools.AsSequence().items) changed.push_back(ToolForTemplate(tool, traits));
  return Value::List(std::move(changed));
}

std::uint32_t CountCalls(const Value& messages) {
  std::size_t count = 0;
  for (const Value& message : messages.AsSequence().items) count += CallsOf(message).size();
  return static_cast<std::uint32_t>(count);
}

}  // namespace roost::router

#include "router/api/template_messages.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

std::string TextOf(const Value& message) {
  const Value* content = message.AsDict().Find("content");
  return content != nullptr && content->is(Kind::kString) ? content->AsString() : std::string();
}

bool IsInstruction(const Value& message) { return RoleOf(message) == "system" || RoleOf(message) == "developer"; }

// The message with another value for one member.
Value With(const Value& message, std::string_view name, Value value) {
  Dict changed;
  for (const Dict::Entry& entry : message.AsDict().entries()) changed.Set(entry.key, entry.value);
  changed.Set(name, std::move(value));
  return Value::Mapping(std::move(changed));
}

Value WithText(const Value& message, std::string text) {
  return With(message, "content", Value::String(std::move(text)));
}

Value WithRole(const Value& message, std::string_view role) {
  if (RoleOf(message) == role) return message;
  return With(message, "role", Value::WrittenString(std::string(role)));
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
  return With(call, "function", With(*function, "arguments", Value::Mapping(std::move(object))));
}

Value CallsForTemplate(Value message, const TemplateTraits& traits) {
  const Value* calls = message.AsDict().Find("tool_calls");
  if (calls == nullptr || !calls->is(Kind::kSequence)) return message;
  if (traits.text_arguments != Rendering::kShown && traits.tool_calls != Rendering::kDropped) {
    std::vector<Value> changed;
    for (const Value& call : calls->AsSequence().items) changed.push_back(WithObjectArguments(call));
    message = With(message, "tool_calls", Value::List(std::move(changed)));
  }
  const Value* content = message.AsDict().Find("content");
  const bool is_none = content == nullptr || content->is(Kind::kNone);
  const bool needs_text =
      traits.tool_calls == Rendering::kRefused && traits.empty_text_beside_calls != Rendering::kRefused;
  return is_none && needs_text ? WithText(message, "") : message;
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
    std::string text = TextOf(run.front());
    for (std::size_t i = 1; i < run.size(); ++i) text = Joined(std::move(text), TextOf(run[i]));
    if (!takes_system && !takes_developer) return AddAsUserText(text);
    const bool is_developer = takes_developer && (all_developer || !takes_system);
    const Value message = WithRole(run.front(), is_developer ? "developer" : "system");
    messages_.push_back(run.size() == 1 ? message : WithText(message, std::move(text)));
  }

  void Add(const Value& message) {
    if (!IsInstruction(message)) return AddOther(message);
    if (RoleOf(message) == "developer" && traits_.later_developer == Rendering::kShown) return AddOther(message);
    if (traits_.later_system == Rendering::kShown) return AddOther(WithRole(message, "system"));
    AddAsUserText(TextOf(message));
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
      behind_ = Joined(Joined(std::move(behind_), std::exchange(waiting_, {})), TextOf(message));
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
      messages_.back() = WithText(messages_.back(), Joined(TextOf(messages_.back()), text));
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
    messages_.push_back(is_same ? *user_ : WithText(*user_, Joined(Joined(std::move(front), TextOf(*user_)), behind)));
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

}  // namespace

Value MessagesForTemplate(const Value& messages, const TemplateTraits& traits) {
  const std::vector<Value>& given = messages.AsSequence().items;
  const auto rest = std::find_if_not(given.begin(), given.end(), &IsInstruction);
  const auto leading = static_cast<std::size_t>(rest - given.begin());
  const bool has_later = std::any_of(rest, given.end(), &IsInstruction);
  const bool is_plain = traits == TemplateTraits() && leading <= 1 && !has_later;
  if (is_plain) return messages;
  Conversation conversation(traits);
  conversation.AddLeading({given.begin(), rest});
  for (auto each = rest; each != given.end(); ++each) conversation.Add(*each);
  return Value::List(conversation.Take());
}

}  // namespace roost::router

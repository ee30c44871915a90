// The functions that a request lets the model call, and how it may choose among them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

inline constexpr int kMaxForcedCalls = 16;  // in one answer

enum class ToolStrictness : std::uint8_t { kFree, kStrict };  // kStrict: arguments must match the schema

enum class ToolInput : std::uint8_t { kJson, kText };  // kText: a custom tool, called with {"input": "a text"}

// The rule for a custom tool's text; always enforced.
struct TextGrammar {
  enum class Syntax : std::uint8_t { kLark, kRegex } syntax = Syntax::kLark;
  std::string text;
};

struct ToolFunction {
  std::string name;
  std::string schema;  // of its parameters; empty when it has none
  ToolStrictness strictness = ToolStrictness::kFree;
  ToolInput input = ToolInput::kJson;
  std::optional<TextGrammar> grammar = {};
};

enum class ToolUse : std::uint8_t { kAuto, kNone, kRequired, kNamed };
enum class ToolCallCount : std::uint8_t { kOne, kMany };
enum class ForcedForm : std::uint8_t { kList, kFamily };  // a JSON list of calls, or what the family writes itself

enum class ToolChoiceSet : std::uint8_t { kAll, kSome };  // kSome: the model is shown tools that it must not call

struct ToolSet {
  std::vector<ToolFunction> functions;  // that may be called
  ToolChoiceSet choice_set = ToolChoiceSet::kAll;
  ToolUse use = ToolUse::kAuto;
  std::string named;  // with kNamed
  ToolCallCount count = ToolCallCount::kMany;
  ForcedForm forced_form = ForcedForm::kList;

  // Null when there is none.
  [[nodiscard]] const ToolFunction* Find(std::string_view name) const {
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [name](const ToolFunction& each) { return each.name == name; });
    return found == functions.end() ? nullptr : &*found;
  }
  // True if the model's output may hold tool calls.
  [[nodiscard]] bool is_used() const { return !functions.empty() && use != ToolUse::kNone; }
  [[nodiscard]] bool has_strict() const {
    return std::any_of(functions.begin(), functions.end(),
                       [](const ToolFunction& each) { return each.strictness == ToolStrictness::kStrict; });
  }
  [[nodiscard]] bool has_grammar() const {
    return std::any_of(functions.begin(), functions.end(),
                       [](const ToolFunction& each) { return each.grammar.has_value(); });
  }
  // True if calls that the model makes by itself are limited in their names, or in all of their text.
  [[nodiscard]] bool limits_calls() const { return has_grammar() || choice_set == ToolChoiceSet::kSome; }
  [[nodiscard]] bool is_forced() const { return use == ToolUse::kRequired || use == ToolUse::kNamed; }
};

}  // namespace roost::router

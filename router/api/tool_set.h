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

struct ToolFunction {
  std::string name;
  std::string schema;  // of its parameters; empty when it has none
  ToolStrictness strictness = ToolStrictness::kFree;
};

enum class ToolUse : std::uint8_t { kAuto, kNone, kRequired, kNamed };
enum class ToolCallCount : std::uint8_t { kOne, kMany };
enum class ForcedForm : std::uint8_t { kList, kFamily };  // a JSON list of calls, or what the family writes itself

struct ToolSet {
  std::vector<ToolFunction> functions;
  ToolUse use = ToolUse::kAuto;
  std::string named;  // with kNamed
  ToolCallCount count = ToolCallCount::kMany;
  ForcedForm forced_form = ForcedForm::kList;

  [[nodiscard]] const ToolFunction* Find(std::string_view name) const;
  // Whether to look for tool calls in the model's output.
  [[nodiscard]] bool is_used() const { return !functions.empty() && use != ToolUse::kNone; }
  [[nodiscard]] bool has_strict() const {
    return std::any_of(functions.begin(), functions.end(),
                       [](const ToolFunction& each) { return each.strictness == ToolStrictness::kStrict; });
  }
  [[nodiscard]] bool is_forced() const { return use == ToolUse::kRequired || use == ToolUse::kNamed; }
};

}  // namespace roost::router

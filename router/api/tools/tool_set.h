// The functions that a request lets the model call, and how it may choose among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::router {

struct ToolFunction {
  std::string name;
  std::string schema;                        // of its parameters; empty when it has none
  std::vector<std::string> text_parameters;  // those whose schema says "string"
};

enum class ToolUse : std::uint8_t { kAuto, kNone, kRequired, kNamed };
enum class ToolCallCount : std::uint8_t { kOne, kMany };

struct ToolSet {
  std::vector<ToolFunction> functions;
  ToolUse use = ToolUse::kAuto;
  std::string named;  // with kNamed
  ToolCallCount count = ToolCallCount::kMany;

  [[nodiscard]] const ToolFunction* Find(std::string_view name) const;
  // Tool calls are looked for in what the model writes.
  [[nodiscard]] bool is_used() const { return !functions.empty() && use != ToolUse::kNone; }
  [[nodiscard]] bool is_forced() const { return use == ToolUse::kRequired || use == ToolUse::kNamed; }
};

}  // namespace roost::router

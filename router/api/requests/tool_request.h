// Reads a chat request's `tools` and `tool_choice`, and makes the constraint that forces a call.
//
//   {"type": "function", "function": {"name": "f", "parameters": {…}, "strict": true}}
//   {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "lark",
//                                                                                            "definition": "…"}}}}
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"
#include "router/api/tool_set.h"

namespace roost::router {

[[nodiscard]] Result<std::vector<ToolFunction>> ReadToolFunctions(JsonElement element, const std::string& path);

// The tools as templates know them: a custom tool is a function of one text, `input`. `functions` were read from them.
[[nodiscard]] Result<std::vector<jinja::Value>> TemplateTools(JsonElement element, const std::string& path,
                                                              const std::vector<ToolFunction>& functions);

// The choice among tools, which must be named among the functions:
//
//   "none", "auto", "required"
//   {"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "patch"}}
//   {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [such objects]}}
//
// With the last the others are taken out of the functions; `kept` are the places of those that stay, else it is empty.
[[nodiscard]] Result<void> ReadToolChoice(JsonElement element, const std::string& path, ToolSet& tools,
                                          std::vector<std::size_t>& kept);

// The constraint that forces a call when the model's family has no call syntax (call_constraint.h):
// [{"name": "f", "arguments": {…}}, …]. Empty when no call is forced. An error names the tools when their schemas use
// something that a constraint can not express.
[[nodiscard]] Result<std::optional<wire::Constraint>> ForcedCallConstraint(const ToolSet& tools);

}  // namespace roost::router

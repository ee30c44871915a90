// What a chat request says of tools: `tools`, `tool_choice`, and the form that forces a call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/api/json_object.h"
#include "router/api/tool_set.h"

namespace roost::router {

[[nodiscard]] Result<std::vector<ToolFunction>> ReadToolFunctions(JsonElement element, const std::string& path);

// "none", "auto", "required", or {"type": "function", "function": {"name": "f"}}, where f is among the functions.
[[nodiscard]] Result<void> ReadToolChoice(JsonElement element, const std::string& path, ToolSet& tools);

// The output of a choice that must call, of a model whose family has no syntax of its own (call_constraint.h):
// [{"name": "f", "arguments": {…}}, …]. Nothing when no call is forced. An error names the tools: their schemas hold
// what no form can express.
[[nodiscard]] Result<std::optional<wire::Constraint>> ForcedCallConstraint(const ToolSet& tools);

}  // namespace roost::router

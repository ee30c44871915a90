// Reads a chat request's `tools` and `tool_choice`, and makes the constraint that forces a call.
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

// The constraint that forces a call when the model's family has no call syntax (call_constraint.h):
// [{"name": "f", "arguments": {…}}, …]. Empty when no call is forced. An error names the tools when their schemas use
// something that a constraint can not express.
[[nodiscard]] Result<std::optional<wire::Constraint>> ForcedCallConstraint(const ToolSet& tools);

}  // namespace roost::router

// A list of Python calls with keyword arguments, [f(a=1, b=["x", None]), g()], as calls with JSON arguments.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "router/api/answer.h"

namespace roost::router {

// Empty when `text` is anything else, or nests deeper than 64 levels. Linear time.
[[nodiscard]] std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text);

}  // namespace roost::router

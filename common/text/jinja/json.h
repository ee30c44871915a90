// JSON text to values. Objects keep the order of their keys (of a repeated key the first place and the last value, as
// Python), integers stay apart from floats.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// Levels of arrays and objects that are read; deeper text is an error.
inline constexpr int kMaxJsonDepth = 64;

// An error names the path of what is wrong, from `name`: "context.messages[1].content". Thread-safe.
Result<Value> FromJson(std::string_view json, std::string_view name);

}  // namespace roost::jinja

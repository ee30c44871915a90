// JSON text to values. Objects keep the order of their keys. As in Python, a repeated key keeps its first place and its
// last value. Integers and floats stay distinct.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/json/json_read.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// The deepest nesting of arrays and objects; deeper text is an error.
inline constexpr int kMaxJsonDepth = 600;

// An error names the path of the wrong value, starting with `name`: "context.messages[1].content". Thread-safe.
Result<Value> FromJson(std::string_view json, std::string_view name);
// The same for a value that is parsed already, with its numbers kept (common/json/kept_numbers.h).
Result<Value> FromJson(json::Element value, std::string_view name);

}  // namespace roost::jinja

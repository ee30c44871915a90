// Jinja2's tests: the names behind `is`.
#pragma once

#include <string_view>

#include "common/text/jinja/objects.h"

namespace roost::jinja {

// Null when there is no such test.
[[nodiscard]] TestFunction FindTest(std::string_view name);

}  // namespace roost::jinja

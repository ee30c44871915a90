// Global names of every template: range, dict, namespace, cycler, joiner, and Hugging Face's raise_exception and
// strftime_now.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/text/jinja/objects.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// The most items of one range(), the same as in Jinja2's sandbox.
inline constexpr std::int64_t kMaxRangeItems = 100'000;

// Undefined when there is no such name.
[[nodiscard]] Value FindGlobal(std::string_view name);

}  // namespace roost::jinja

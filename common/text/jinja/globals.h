// Names that every template has: range, dict, namespace, cycler, joiner, and the two that Hugging Face adds,
// raise_exception and strftime_now.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/text/jinja/objects.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// Items of one range(), which is Jinja2's sandbox's bound.
inline constexpr std::int64_t kMaxRangeItems = 100'000;

// Undefined when there is no such name.
[[nodiscard]] Value FindGlobal(std::string_view name);

}  // namespace roost::jinja

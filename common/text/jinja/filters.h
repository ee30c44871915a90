// Jinja2's filters, except those that make HTML or random choices.
#pragma once

#include <string_view>

#include "common/text/jinja/objects.h"

namespace roost::jinja {

// Null when there is no such filter.
[[nodiscard]] FilterFunction FindFilter(std::string_view name);

// The tables behind FindFilter, one per file: filters of text and numbers, of sequences and dicts, and those that map,
// select and sort by attribute.
[[nodiscard]] FilterFunction FindTextFilter(std::string_view name);
[[nodiscard]] FilterFunction FindSequenceFilter(std::string_view name);
[[nodiscard]] FilterFunction FindSelectionFilter(std::string_view name);

}  // namespace roost::jinja

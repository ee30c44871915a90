// Lookup of a built-in function by name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace roost::jinja {

template <typename Function>
struct NamedFunction {
  std::string_view name;
  Function function;
};

// Null when `table` has no `name`. Linear: names are looked up when a template is parsed, not when it runs.
template <typename Function, std::size_t kSize>
[[nodiscard]] Function FindIn(const std::array<NamedFunction<Function>, kSize>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : found->function;
}

}  // namespace roost::jinja

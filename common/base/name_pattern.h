// Names of models and workers in the files of keys.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace roost {

// Is the name among `patterns`? A * at the end of one stands for any ending.
[[nodiscard]] inline bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [name](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

}  // namespace roost

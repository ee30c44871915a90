// Suggests the known name closest to a misspelt one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace roost {

// The name that is nearest to `written`: one that it begins or that differs in few letters; none if all are far. Letter
// case counts for nothing, and _ is as good as -. O(names · length²).
[[nodiscard]] std::optional<std::string> NearestName(std::string_view written, std::span<const std::string> names);

// "; did you mean PREFIXNAME?", or nothing if no name is near.
[[nodiscard]] std::string DidYouMean(std::string_view written, std::span<const std::string> names,
                                     std::string_view prefix);

}  // namespace roost

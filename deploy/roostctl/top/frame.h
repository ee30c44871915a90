// One picture of `roostctl top`, as lines of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/roostctl/top/top_sample.h"

namespace roost::roostctl {

inline constexpr std::size_t kLeastColumns = 80;
inline constexpr std::size_t kUncut = 0;  // columns of what is no terminal

struct Screen {
  std::size_t columns = kLeastColumns;  // kUncut: lines are as long as they are
  std::size_t rows = 24;                // 0: as many as there are lines
};

// Changes from `before` to `now` are shown as rates. `title` names the router. No line is longer than the screen is
// wide (but at least kLeastColumns); lines that do not fit its height are left out, with a line that says so.
[[nodiscard]] std::vector<std::string> DrawFrame(std::string_view title, const TopSample& before, const TopSample& now,
                                                 const Screen& screen);

}  // namespace roost::roostctl

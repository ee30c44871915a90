// Shares as roostctl prints them.
#pragma once

#include <cstdint>

namespace roost::roostctl {

// 100 · part / whole; 0 of nothing.
[[nodiscard]] inline double Percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace roost::roostctl

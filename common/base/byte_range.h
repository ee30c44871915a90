// A stretch of a text.
#pragma once

#include <cstddef>

namespace roost {

// Half-open, in bytes.
struct ByteRange {
  std::size_t begin;
  std::size_t end;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace roost

// Part of a text or buffer: half-open, in bytes.
#pragma once

#include <cstddef>

namespace roost {

struct ByteRange {
  std::size_t begin;
  std::size_t end;

  bool operator==(const ByteRange&) const = default;
};

}  // namespace roost

// Pieces of host memory that one copy brings to a device:
//
//   host     piece 0      piece 1        piece 2       anywhere
//              │            └─────┐         │
//   device   to + offset 0   to + offset 1  to + offset 2         what lies between is not defined
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/parallel_copy.h"

namespace roost::kernels {

struct HostPiece {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // of the copy; pieces do not overlap
};

// Bytes from the beginning of the copy to the end of its last piece.
[[nodiscard]] inline std::size_t BytesOf(std::span<const HostPiece> pieces) {
  std::size_t bytes = 0;
  for (const HostPiece& piece : pieces) bytes = std::max(bytes, piece.offset + piece.bytes);
  return bytes;
}

// Puts the pieces to their offsets in memory of the host.
inline void Gather(std::span<const HostPiece> pieces, void* to) {
  for (const HostPiece& piece : pieces) {
    CopyInParallel(static_cast<std::byte*>(to) + piece.offset, piece.data, piece.bytes);
  }
}

}  // namespace roost::kernels

// Pieces of host memory that one copy transfers to a device:
//
//   host     piece 0      piece 1        piece 2       anywhere
//              │            └─────┐         │
//   device   to + offset 0   to + offset 1  to + offset 2         bytes between them are undefined
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/parallel_copy.h"

namespace roost::kernels {

struct HostPiece {
  const void* data = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the copy; pieces do not overlap
};

// Bytes from the begin of the copy to the end of its last piece.
[[nodiscard]] inline std::size_t BytesOf(std::span<const HostPiece> pieces) {
  std::size_t bytes = 0;
  for (const HostPiece& piece : pieces) bytes = std::max(bytes, piece.offset + piece.bytes);
  return bytes;
}

// Copies the pieces to their offsets in host memory.
inline void Gather(std::span<const HostPiece> pieces, void* to) {
  for (const HostPiece& piece : pieces) {
    CopyInParallel(static_cast<std::byte*>(to) + piece.offset, piece.data, piece.bytes);
  }
}

}  // namespace roost::kernels

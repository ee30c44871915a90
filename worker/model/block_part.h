// The part of a KV block that a rank holds: its heads, as pieces of the whole block, which is
//
//   [layer][K|V][kv head][token][dim]                 of all heads
//
// A rank has the same without the other ranks' heads, so each of its (layer, K or V) is one piece of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kv_layout.h"
#include "worker/model/block_reader.h"

namespace roost::worker {

struct BlockPart {
  kernels::KvLayout layout;  // the rank's
  std::uint32_t first_head = 0;
  std::uint32_t whole_head_count = 0;

  [[nodiscard]] std::size_t WholeBytes() const { return layout.BlockBytes() / layout.kv_head_count * whole_head_count; }

  // Calls visit(offset in the rank's block, offset in the whole block, bytes) for each piece.
  template <typename Visit>
  void VisitPieces(Visit visit) const {
    if (layout.kv_head_count == whole_head_count) return visit(std::size_t{0}, std::size_t{0}, layout.BlockBytes());
    const std::size_t head_bytes = layout.HeadElements() * kernels::SizeOf(layout.dtype);
    const std::size_t bytes = head_bytes * layout.kv_head_count;
    for (std::size_t half = 0; half < std::size_t{layout.layer_count} * 2; ++half) {
      visit(half * bytes, head_bytes * (half * whole_head_count + first_head), bytes);
    }
  }
};

// Reads whole blocks from the memory of all ranks, which is the host's. At least one part.
[[nodiscard]] std::unique_ptr<BlockReader> MakePartsReader(std::vector<BlockPart> parts);

}  // namespace roost::worker

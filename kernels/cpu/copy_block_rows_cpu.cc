#include <cstring>

#include "kernels/copy_block_rows.h"

namespace roost::kernels {

void CopyBlockRowsCpu(Device& /*device*/, const CopyBlockRowsArgs& args) {
  const KvLayout& kv = args.kv;
  auto* base = static_cast<std::byte*>(kv.base);
  const std::size_t head_bytes = kv.HeadElements() * SizeOf(kv.dtype);
  // Inside a block, the heads of K and V of all layers are contiguous pieces of equal size.
  const std::size_t pieces = std::size_t{kv.layer_count} * 2 * kv.kv_head_count;
  for (std::uint32_t i = 0; i < args.copy_count; ++i) {
    const BlockRowsCopy& copy = args.copies[i];
    const std::byte* from = base + copy.from_block * kv.BlockBytes();
    std::byte* to = base + copy.to_block * kv.BlockBytes();
    const std::size_t bytes = std::size_t{copy.row_count} * kv.head_dim * SizeOf(kv.dtype);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      std::memcpy(to + piece * head_bytes, from + piece * head_bytes, bytes);
    }
  }
}

}  // namespace roost::kernels

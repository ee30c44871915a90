// The layout of K and V in memory:
//
//   [block][layer][K|V][kv_head][block_tokens][head_dim]
//
// One block is contiguous over all layers, so that it can be copied, sent or stored in one piece. K (or V) of one head
// in one block is a matrix of consecutive rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace roost::kernels {

struct KvLayout {
  void* base = nullptr;
  DType dtype = DType::kF32;  // kF32 or kBF16
  std::uint32_t block_count = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t kv_head_count = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t head_dim = 0;

  [[nodiscard]] constexpr std::size_t HeadElements() const { return std::size_t{block_tokens} * head_dim; }
  [[nodiscard]] constexpr std::size_t BlockBytes() const {
    return SizeOf(dtype) * HeadElements() * kv_head_count * 2 * layer_count;
  }
  // First element of K of (block, layer, head); V follows kv_head_count heads later.
  [[nodiscard]] constexpr std::size_t KOffset(std::uint32_t block, std::uint32_t layer, std::uint32_t kv_head) const {
    return HeadElements() * ((std::size_t{block} * layer_count + layer) * 2 * kv_head_count + kv_head);
  }
  [[nodiscard]] constexpr std::size_t VOffset(std::uint32_t block, std::uint32_t layer, std::uint32_t kv_head) const {
    return KOffset(block, layer, kv_head) + HeadElements() * kv_head_count;
  }
};

}  // namespace roost::kernels

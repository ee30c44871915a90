// Attention over K and V in blocks, driven by a list of items:
//
//   out[t][h] = Σ_j softmax_j(scale · q[t][h] · k[j]) v[j]      over positions j = 0 … position of t
//
// An item is a pack of query rows on a slice of a block list, for all heads. Prefill, chunked prefill, decode, and
// decode over shared blocks differ only in the list:
//
//   item        rows, and positions [first_position, first_position + position_count). For each kv head, its lanes are
//               the pairs of a row and a query head of that kv head
//   whole       the item covers all positions of its rows and writes `out`
//   partial     it covers some positions, and writes partial results; a merge combines all partials of a row, by
//               log-sum-exp
// A prefix that several requests share is one item, with the rows of all of them and the blocks of one. The positions
// behind it are a separate item for each request. Every such row then has partials.
//
// A backend's profile says which lists it accepts. An op aborts on any other list.
//
// Determinism of the CPU: spans start at fixed positions, a row combines its spans from first to last, and sums within
// a span run over positions in order. So a row's result depends, bit for bit, only on its q and on K and V of its
// positions: not on the pack, not on whole or partial, not on block_tokens. On CUDA all of these change the rounding. K
// and V must be finite at every position that an item covers.
//
// Source: Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Dao et al.: FlashAttention and
// Flash-Decoding, 2022–2023; block lists: Kwon et al.: PagedAttention, 2023; shared prefixes: Juravsky et al.:
// Hydragen, 2024. Accuracy, before rounding to out_dtype: CPU 1e-5 of the largest |v|; CUDA, which rounds the weights
// of v to bf16, 1/128 of it.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

// The CPU's spans: a multiple of every allowed block_tokens.
inline constexpr std::uint32_t kAttentionSpan = 256;

// The lists that a backend accepts, and the costs of items on it.
struct AttentionProfile {
  // Tile sizes, ascending. An item is computed with the smallest that holds its lanes. The largest limits row_count ·
  // group, except for items of one row (the op splits a larger group).
  std::array<std::uint32_t, 3> lane_tiles = {4, 8, 16};
  // Partial items begin at multiples of this and of block_tokens.
  std::uint32_t partial_step = kAttentionSpan;
  // They end there too, or at the row's end, and cover at most this many positions.
  std::uint32_t max_partial_positions = kAttentionSpan;
  // Reading K and V of one position costs as much as computing with this many lanes.
  std::uint32_t read_cost_lanes = 4;
  // The fixed cost of an item, in positions.
  std::uint32_t item_cost_positions = 4;
  // The number of (item, kv head) pairs that run at the same time.
  std::uint32_t concurrent_items = 1;
};

// A query row: it attends to positions 0 … position. With a causal mask that is its own position, without a mask the
// last one of its sequence.
struct AttentionRow {
  std::uint32_t token = 0;  // row of q and out
  std::uint32_t position = 0;
};

// An item without rows is skipped: it can pad a list.
struct AttentionItem {
  enum class Output : std::uint32_t { kWhole, kPartial };

  std::uint32_t first_row = 0;  // in rows
  std::uint32_t row_count = 0;
  std::uint32_t first_block = 0;     // index in the block list: the block that holds first_position
  std::uint32_t first_position = 0;  // 0 for kWhole
  std::uint32_t position_count = 0;
  std::uint32_t first_partial = 0;  // kPartial: row r, query head h writes first_partial + r·query_head_count + h
  Output output = Output::kWhole;
};

// For every query head h, out[token][h] combines the partials parts[first_part + i] + h, i = 0 … part_count-1, in the
// order of their positions. Does nothing when part_count is 0.
struct AttentionMerge {
  std::uint32_t token = 0;
  std::uint32_t first_part = 0;
  std::uint32_t part_count = 0;
};

struct AttentionArgs {
  const void* q = nullptr;      // [tokens][query_head_count][head_dim]
  DType q_dtype = DType::kF32;  // CPU: kF32; CUDA: kBF16
  float scale = 0;
  std::uint32_t query_head_count = 0;  // a multiple of kv.kv_head_count
  KvLayout kv;                         // CUDA: kBF16, head_dim 64 or 128, block_tokens at least 16
  std::uint32_t layer = 0;
  const std::uint32_t* blocks = nullptr;
  const AttentionRow* rows = nullptr;
  const AttentionItem* items = nullptr;
  std::uint32_t item_count = 0;
  const AttentionMerge* merges = nullptr;
  std::uint32_t merge_count = 0;
  const std::uint32_t* parts = nullptr;
  float* partials = nullptr;      // [partial][PartialFloats(head_dim)], aligned to 8
  void* out = nullptr;            // [tokens][query_head_count][head_dim], no alias
  DType out_dtype = DType::kF32;  // kF32 or kBF16; CUDA: kBF16
};

// A partial result: the largest score, the sum of exp(score - largest), and Σ exp(score - largest) · v. If a row sees
// no position of the item, the sum is 0 and the other values are finite.
[[nodiscard]] constexpr std::uint32_t PartialFloats(std::uint32_t head_dim) { return head_dim + 2; }

[[nodiscard]] AttentionProfile AttentionProfileCpu(Device& device, std::uint32_t head_dim);
void AttentionRef(Device& device, const AttentionArgs& args);
void AttentionCpu(Device& device, const AttentionArgs& args);

[[nodiscard]] AttentionProfile AttentionProfileCuda(Device& device, std::uint32_t head_dim);
void AttentionCuda(Device& device, const AttentionArgs& args);

}  // namespace roost::kernels

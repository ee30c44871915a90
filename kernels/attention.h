// Attention over K and V in blocks, as a list of work:
//
//   out[t][h] = Σ_j softmax_j(scale · q[t][h] · k[j]) v[j]      over positions j = 0 … position of t
//
// An item is a pack of query rows times some query heads of one kv head, on a slice of a block list. Prefill, chunked
// prefill, decode, and decode over blocks that requests share differ only in the list:
//
//   item        rows × query heads (at most kMaxPackLanes pairs), positions [first_position, first_position + count)
//   whole       the item covers all positions of its rows and writes `out`
//   partial     the item covers one span, [i·kAttentionSpan, (i+1)·kAttentionSpan), and writes partial results;
//               a merge folds the partials of a row, by log-sum-exp
//
// Determinism: spans lie at fixed positions, a row folds its spans from the first to the last, and within a span sums
// run over positions in order. So the result of a row depends, bit for bit, on its q and on K and V of its positions
// alone: not on the pack, nor on whole or partial, nor on block_tokens. (K and V must be finite at every position that
// an item covers.)
//
// Source: Milakov, Gimelshein: Online normalizer calculation for softmax, 2018; Dao et al.: FlashAttention and
// Flash-Decoding, 2022–2023; block lists: Kwon et al.: PagedAttention, 2023. Accuracy: 1e-5 of the largest |v|, before
// rounding to out_dtype.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/kv_layout.h"

namespace roost::kernels {

// A multiple of every allowed block_tokens.
inline constexpr std::uint32_t kAttentionSpan = 256;
inline constexpr std::uint32_t kMaxPackLanes = 16;

// A query row: it attends to positions 0 … position.
struct AttentionRow {
  std::uint32_t token = 0;  // row of q and out
  std::uint32_t position = 0;
};

struct AttentionItem {
  enum class Output : std::uint8_t { kWhole, kPartial };

  std::uint32_t first_row = 0;  // in rows
  std::uint32_t row_count = 0;
  std::uint32_t kv_head = 0;
  std::uint32_t first_query_head = 0;  // all of kv_head's group
  std::uint32_t query_head_count = 0;
  std::uint32_t first_block = 0;     // in blocks: the one that holds first_position
  std::uint32_t first_position = 0;  // a multiple of kAttentionSpan; 0 for kWhole
  std::uint32_t position_count = 0;
  std::uint32_t first_partial = 0;  // kPartial: row r, head h of the item go to first_partial + r·query_head_count + h
  Output output = Output::kWhole;
};

// out[token][query_head] of the partials first_partial + i·stride, i = 0 … count-1, in the order of their spans.
struct AttentionMerge {
  std::uint32_t token = 0;
  std::uint32_t query_head = 0;
  std::uint32_t first_partial = 0;
  std::uint32_t stride = 0;
  std::uint32_t count = 0;
};

struct AttentionArgs {
  const float* q = nullptr;  // [tokens][query_head_count][head_dim]
  float scale = 0;
  std::uint32_t query_head_count = 0;
  KvLayout kv;
  std::uint32_t layer = 0;
  const std::uint32_t* blocks = nullptr;
  const AttentionRow* rows = nullptr;
  const AttentionItem* items = nullptr;
  std::uint32_t item_count = 0;
  const AttentionMerge* merges = nullptr;
  std::uint32_t merge_count = 0;
  float* partials = nullptr;      // [partial][PartialFloats(head_dim)]
  void* out = nullptr;            // [tokens][query_head_count][head_dim], no alias
  DType out_dtype = DType::kF32;  // kF32 or kBF16
};

// A partial result: the largest score, the sum of exp(score - largest), and Σ exp(score - largest) · v.
[[nodiscard]] constexpr std::uint32_t PartialFloats(std::uint32_t head_dim) { return head_dim + 2; }

void AttentionRef(Device& device, const AttentionArgs& args);
void AttentionCpu(Device& device, const AttentionArgs& args);

}  // namespace roost::kernels

// Tensor parallelism: which rank has which part of a transformer. Every rank computes its heads and its columns of the
// inner layer, for all tokens; their contributions to the residual stream are summed over the ranks:
//
//   q, k, v        rows of Wqkv and their biases, by heads         rank r: its query heads, and the kv heads these use
//   o              columns of Wo, those of its query heads         then all_reduce
//   gate, up       rows                                            rank r: its part of the inner layer
//   down           columns                                         then all_reduce
//   logits         rows of the output matrix: its tokens           then gather_columns on rank 0
//   embedding      the same rows                                   then all_reduce
//   norms                                                          whole on every rank
//
// The embedding's all_reduce is one beside the two of each layer, 1 in 161 for the 70B shape and 1 in 65 for the 8B
// one. In bf16 it saves each of eight ranks 1.8 of 2.1 GB, or 0.9 of 1.05: 3 and 1 % more cache on a device of 80 GB.
// And a tied model's logits are computed from rows that are there already.
//
// With more ranks than kv heads, neighbours hold the same one. Pure.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "worker/model/hf_config.h"
#include "worker/model/weights.h"

namespace roost::worker {

struct Shard {
  std::uint32_t rank = 0;
  std::uint32_t rank_count = 1;
};

inline constexpr std::uint32_t kMaxRanks = 64;

// A rank's part of a model.
struct ShardRanges {
  WeightRange q;             // rows of q_proj, columns of o_proj
  WeightRange kv;            // rows of k_proj and v_proj
  WeightRange intermediate;  // rows of gate_proj and up_proj, columns of down_proj
  WeightRange vocabulary;    // rows of the output matrix and of the embedding
};

// kInvalidArgument, naming tensor_parallel, unless so many ranks can share the model: they divide the query heads and
// the inner layer, kv heads and ranks divide one way or the other, and there are tokens for each.
[[nodiscard]] Result<void> CheckRankCount(const HfConfig& config, std::uint32_t rank_count);

// `config` is the whole model's, and its ranks were checked.
[[nodiscard]] ShardRanges RangesOf(const HfConfig& config, const Shard& shard);

// The config of a rank's part as a model of its own: with its heads and its inner layer, and the whole vocabulary.
[[nodiscard]] HfConfig ConfigOf(const HfConfig& config, const Shard& shard);

// Of a weight with rows of `columns` elements: some rows, which lie where they lay; some columns, which are a copy
// unless they are all. O(elements taken).
[[nodiscard]] Weight RowsOf(const Weight& weight, std::uint32_t columns, const WeightRange& rows);
[[nodiscard]] Weight ColumnsOf(const Weight& weight, std::uint32_t columns, const WeightRange& range);

}  // namespace roost::worker

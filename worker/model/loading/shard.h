// Tensor parallelism: which rank has which part of a transformer. Every rank computes its heads and its columns of the
// inner layer for all tokens; their contributions to the residual stream are summed over the ranks:
//
//   q, k, v        rows of Wqkv and their biases, by heads         rank r: its query heads, and the kv heads these use
//   o              columns of Wo, those of its query heads         then all_reduce
//   gate, up       rows                                            rank r: its part of the inner layer
//   down           columns                                         then all_reduce
//   logits         rows of the output matrix: its tokens           then gather_columns on rank 0
//   embedding      the same rows                                   then all_reduce
//   norms                                                          whole on every rank
//
// The embedding's all_reduce is one in addition to two per layer: 1 in 161 for the 70B shape and 1 in 65 for the 8B
// one. In return, with bf16 each of eight ranks saves 1.8 of 2.1 GB, or 0.9 of 1.05: 3 and 1 % more cache on a device
// of 80 GB. And a tied model computes its logits from the same rows.
//
// With more ranks than kv heads, neighbouring ranks hold the same kv head. Pure.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "worker/model/loading/hf_config.h"
#include "worker/model/loading/weights.h"

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

// kInvalidArgument, naming tensor_parallel, unless this many ranks can share the model: they divide the query heads and
// the inner layer, the kv heads divide the ranks or the ranks the kv heads, and each rank has tokens.
[[nodiscard]] Result<void> CheckRankCount(const HfConfig& config, std::uint32_t rank_count);

// `config` is the whole model's, and CheckRankCount has accepted its ranks.
[[nodiscard]] ShardRanges RangesOf(const HfConfig& config, const Shard& shard);

// The config of a rank's part as a model of its own: the rank's heads and inner layer, and the whole vocabulary.
[[nodiscard]] HfConfig ConfigOf(const HfConfig& config, const Shard& shard);

// Parts of a weight with rows of `columns` elements. Rows are a view of the weight's memory; columns are a copy unless
// they are all. O(elements taken).
[[nodiscard]] Weight RowsOf(const Weight& weight, std::uint32_t columns, const WeightRange& rows);
[[nodiscard]] Weight ColumnsOf(const Weight& weight, std::uint32_t columns, const WeightRange& range);

}  // namespace roost::worker

// The vector part of sampling on the CPU: passes over one row of logits. A weight is exp((logit - best) / temperature),
// computed in f32, 0 for tokens that min-p drops, in multiples of 2^-44. Every pass computes the same weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "kernels/sample.h"

namespace roost::kernels {

// A row of at most kMaxSampledVocab logits, none of them NaN or above `best`, which is finite; and the draw from it,
// whose temperature is above 0. Without one: the probabilities of the logits as they are.
struct WeightedRow {
  std::span<const float> logits;
  float best = 0;
  SampleRow draw = {.temperature = 1};
};

struct RowExtremes {
  float best = 0;  // the highest logit, finite
  bool has_nan = false;
};
[[nodiscard]] RowExtremes FindExtremes(std::span<const float> logits);

// The first token with this logit, which must occur.
[[nodiscard]] TokenId FindFirst(std::span<const float> logits, float logit);

// The weight of each tile of kTileTokens tokens: few enough that a tile's sum is exact in f64.
inline constexpr std::size_t kTileTokens = 512;
void SumTiles(const WeightedRow& row, std::span<std::uint64_t> sums);
// The token of the tile at which the running sum exceeds `target`, which is less than the tile's weight.
[[nodiscard]] TokenId FindInTile(const WeightedRow& row, std::size_t tile, std::uint64_t target);

// Adds each token to the bucket of its logit; likelier tokens go to lower buckets.
inline constexpr std::uint32_t kBucketCount = 2048;
void FillBuckets(const WeightedRow& row, std::span<SampleScratch::Bucket> buckets);
// Appends the tokens of one bucket.
void CollectBucket(const WeightedRow& row, std::uint32_t bucket, std::vector<SampleScratch::Candidate>& candidates);

}  // namespace roost::kernels

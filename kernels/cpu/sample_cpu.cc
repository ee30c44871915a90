// As on CUDA (sample_cuda.cu), each search looks for the first token, in some order, at which a running sum of counts
// or weights exceeds a threshold. In the order of ids, it searches the sums of tiles. In the order of likelihood,
// nothing is sorted: tokens fall into buckets by their distance from the best logit; in the bucket where the sum
// exceeds the threshold, halves are dropped until one token remains.
//
// Source of the latter: weighted quickselect, as in Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms,
// problem 9-2.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/cpu/sample_weights_cpu.h"
#include "kernels/sample.h"

namespace roost::kernels {
namespace {

using Bucket = SampleScratch::Bucket;
using Candidate = SampleScratch::Candidate;

// A total order: no two candidates are equal.
bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

SampleStatus StatusOf(const RowExtremes& row) {
  if (row.has_nan) return SampleStatus::kNotANumber;
  if (std::isfinite(row.best)) return SampleStatus::kSampled;
  return row.best > 0 ? SampleStatus::kInfinite : SampleStatus::kAllMinusInfinity;
}

std::uint64_t TargetOf(double uniform, std::uint64_t total) {
  return std::min(static_cast<std::uint64_t>(uniform * static_cast<double>(total)), total - 1);
}

// The first token whose running sum exceeds this threshold is the first whose sum reaches the share top_p of the total.
std::uint64_t ThresholdOf(float top_p, std::uint64_t total) {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(top_p) * static_cast<double>(total)));
  return std::clamp<std::uint64_t>(wanted, 1, total) - 1;
}

// ---- the order of ids ----

TokenId DrawById(const WeightedRow& row, double uniform, SampleScratch& scratch) {
  scratch.tile_weights.resize((row.logits.size() + kTileTokens - 1) / kTileTokens);
  SumTiles(row, scratch.tile_weights);
  std::uint64_t total = 0;
  for (const std::uint64_t weight : scratch.tile_weights) total += weight;
  std::uint64_t left = TargetOf(uniform, total);
  std::size_t tile = 0;
  for (; scratch.tile_weights[tile] <= left; ++tile) left -= scratch.tile_weights[tile];
  return FindInTile(row, tile, left);
}

// ---- the order of likelihood ----

enum class Measure : std::uint8_t { kCount, kWeight };

template <Measure kMeasure, typename T>
std::uint64_t MeasureOf(const T& value) {
  if constexpr (kMeasure == Measure::kWeight) {
    return value.weight;
  } else if constexpr (std::is_same_v<T, Bucket>) {
    return value.count;
  } else {
    return 1;
  }
}

// The token at which a running sum exceeds a threshold.
struct Border {
  TokenId token = 0;
  std::uint64_t weight = 0;  // of all tokens up to and including this one
};

class LikeliestFirst {
 public:
  LikeliestFirst(const WeightedRow& row, SampleScratch& scratch) : row_(row), scratch_(scratch) {}

  TokenId Draw(const SampleRow& draw, double uniform) {
    scratch_.buckets.assign(kBucketCount, {});
    FillBuckets(row_, scratch_.buckets);
    std::uint64_t total = 0;
    for (const Bucket& bucket : scratch_.buckets) total += bucket.weight;
    const bool cut = draw.top_k > 0 && draw.top_k < row_.logits.size();
    if (cut) total = Find<Measure::kCount>(draw.top_k - 1).weight;
    if (draw.top_p != 1.0F) total = Find<Measure::kWeight>(ThresholdOf(draw.top_p, total)).weight;
    return Find<Measure::kWeight>(TargetOf(uniform, total)).token;
  }

 private:
  // `threshold` must be less than the sum over all tokens.
  template <Measure kMeasure>
  Border Find(std::uint64_t threshold) {
    Border border;
    std::uint32_t bucket = 0;
    for (; MeasureOf<kMeasure>(scratch_.buckets[bucket]) <= threshold; ++bucket) {
      threshold -= MeasureOf<kMeasure>(scratch_.buckets[bucket]);
      border.weight += scratch_.buckets[bucket].weight;
    }
    scratch_.candidates.clear();
    CollectBucket(row_, bucket, scratch_.candidates);
    auto begin = scratch_.candidates.begin();
    auto end = scratch_.candidates.end();
    while (end - begin > 1) {
      const auto middle = begin + (end - begin) / 2;
      std::nth_element(begin, middle, end, IsLikelier);
      Bucket half;
      for (auto each = begin; each != middle; ++each) half.weight += each->weight;
      half.count = static_cast<std::uint64_t>(middle - begin);
      if (MeasureOf<kMeasure>(half) > threshold) {
        end = middle;
      } else {
        threshold -= MeasureOf<kMeasure>(half);
        border.weight += half.weight;
        begin = middle;
      }
    }
    return {begin->token, border.weight + begin->weight};
  }

  const WeightedRow& row_;
  SampleScratch& scratch_;
};

}  // namespace

void UpdateCounts(const SampleArgs& args, const SampleRow& draw) {
  if (!draw.has_counts) return;
  const std::span<TokenCount> counts(args.counts + std::size_t{draw.counts_row} * args.vocab_size, args.vocab_size);
  if (draw.resets_counts) {
    std::fill(counts.begin(), counts.end(), 0);
    for (const CountedToken& counted : std::span(args.counted + draw.first_counted, draw.counted_count)) {
      ROOST_CHECK(counted.token < args.vocab_size, "token {} of {}", counted.token, args.vocab_size);
      counts[counted.token] = counted.count;
    }
  }
  if (!draw.has_newest) return;
  const TokenId newest = args.tokens[draw.newest];
  ROOST_CHECK(newest < args.vocab_size, "token {} of {}", newest, args.vocab_size);
  ++counts[newest];
}

namespace {

void MaskLogits(const std::uint32_t* mask, std::span<float> logits) {
  for (std::size_t first = 0; first < logits.size(); first += kMaskBits) {
    const std::uint32_t allowed = *mask++;
    if (allowed == ~std::uint32_t{0}) continue;
    const std::size_t count = std::min<std::size_t>(kMaskBits, logits.size() - first);
    for (std::size_t i = 0; i < count; ++i) logits[first + i] = Masked(logits[first + i], (allowed >> i & 1U) != 0);
  }
}

}  // namespace

void AdjustLogits(const SampleArgs& args, const SampleRow& draw, std::span<const float> logits, std::span<float> out) {
  ROOST_CHECK(out.size() == logits.size() && logits.size() == args.vocab_size);
  std::copy(logits.begin(), logits.end(), out.begin());
  const TokenCount* counts = draw.has_counts ? args.counts + std::size_t{draw.counts_row} * args.vocab_size : nullptr;
  for (std::size_t token = 0; counts != nullptr && token < logits.size(); ++token) {
    if (counts[token] != 0) out[token] = Adjusted(logits[token], AdjustmentOf(0, counts[token], draw.penalties));
  }
  for (const LogitBias& bias : std::span(args.biases + draw.first_bias, draw.bias_count)) {
    ROOST_CHECK(bias.token < logits.size(), "token {} of {}", bias.token, logits.size());
    const TokenCount count = counts == nullptr ? 0 : counts[bias.token];
    out[bias.token] = Adjusted(logits[bias.token], AdjustmentOf(bias.bias, count, draw.penalties));
  }
  if (draw.has_mask) MaskLogits(args.masks + std::size_t{draw.mask_row} * MaskWords(args.vocab_size), out);
}

std::span<const float> LogitsOf(const SampleArgs& args, const SampleRow& draw) {
  const std::span<const float> logits(args.logits + std::size_t{draw.row} * args.vocab_size, args.vocab_size);
  if (!IsAdjusted(draw)) return logits;
  const std::span<float> adjusted(args.adjusted + std::size_t{draw.adjusted_row} * args.vocab_size, args.vocab_size);
  UpdateCounts(args, draw);
  AdjustLogits(args, draw, logits, adjusted);
  return adjusted;
}

SampledToken SampleOnCpu(std::span<const float> logits, const SampleRow& draw, SampleScratch& scratch) {
  ROOST_CHECK(!logits.empty() && logits.size() <= kMaxSampledVocab);
  const RowExtremes extremes = FindExtremes(logits);
  const SampleStatus status = StatusOf(extremes);
  if (status != SampleStatus::kSampled) return {.token = 0, .status = status};
  if (draw.temperature == 0) return {.token = FindFirst(logits, extremes.best), .status = status};
  const WeightedRow row{.logits = logits, .best = extremes.best, .draw = draw};
  const double uniform = CounterUniform(draw.seed, draw.output_index);
  const bool by_id = draw.top_k == 0 && draw.top_p == 1.0F;
  const TokenId token = by_id ? DrawById(row, uniform, scratch) : LikeliestFirst(row, scratch).Draw(draw, uniform);
  return {.token = token, .status = status};
}

void SampleCpu(Device& device, const SampleArgs& args) {
  constexpr std::uint64_t kOperationsPerLogit = 16;
  CpuDevice& cpu = CpuDevice::Of(device);
  std::vector<SampleScratch> scratch(cpu.thread_count());
  const Cost cost{kOperationsPerLogit * args.row_count * args.vocab_size};
  ParallelFor(cpu, args.row_count, cost, [&](std::size_t i, std::uint32_t thread) {
    const SampleRow& draw = args.rows[i];
    args.out[i] = SampleOnCpu(LogitsOf(args, draw), draw, scratch[thread]);
  });
}

}  // namespace roost::kernels

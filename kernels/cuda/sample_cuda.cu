// A block per draw. Each search looks for the first token, in some order, at which a running sum of counts or weights
// exceeds a threshold: the last one that top-k keeps, the last one that top-p keeps, the drawn one. In the order of
// ids, it searches the sums of tiles. In the order of likelihood, tokens are never sorted:
//
//   buckets   tokens by their distance from the best logit: counts and weights of kSlots buckets
//   list      the tokens of all buckets that can matter, in shared memory if they are few; else all are read again
//   digits    a token's key is its logit's bits above its id's; sums of the bucket's tokens by one digit after the
//             other, until a slot has one token
//
// Sums are of integers, so that they do not depend on the order in which threads add them.
// Source: the selection by digits is radix select, as in Alabi et al.: Fast k-selection algorithms for graphics
// processing units, 2012; here over weights too.
#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/token_keys.cuh"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/sample.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 1024;
constexpr std::uint32_t kSlots = 2 * kThreads;
constexpr std::uint32_t kMaxListed = 4096;
constexpr std::uint32_t kDigitBits = 11;
constexpr std::uint32_t kDigitCount = 6;  // of 64 bits
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kWeightUnit = 0x1p44;
constexpr float kBucketsPerE = 64;  // buckets per factor e between weights

static_assert(kSlots == 1U << kDigitBits && kMaxSampledVocab <= kSlots * kSlots);

struct Shared {
  Wide weights[kSlots];  // of each bucket
  Wide sums[kSlots];     // of digits, tiles, or the tokens of a tile
  Wide list[kMaxListed];
  std::uint32_t counts[kSlots];        // of each bucket
  std::uint32_t digit_counts[kSlots];  // of tokens, for each of `sums`
  Wide warp_values[32];
  std::uint32_t list_count;
  std::uint32_t broken;
  // Results of the last search.
  std::uint32_t slot;
  Wide before;
  Wide key;
};
static_assert(sizeof(Shared) <= kMaxSharedBytes);

struct Row {
  const float* logits;
  std::uint32_t vocab_size;
  float best;
  double temperature;
  float min_p;
  float bucket_scale;

  // 0 for tokens that min-p drops.
  __device__ __forceinline__ Wide Weight(float logit) const {
    const double weight = exp((static_cast<double>(logit) - static_cast<double>(best)) / temperature);
    return weight < static_cast<double>(min_p) ? 0 : static_cast<Wide>(weight * kWeightUnit + 0.5);
  }
  // Monotonic: a lower logit never has a lower bucket, so buckets are in the order of likelihood.
  __device__ __forceinline__ std::uint32_t Bucket(float logit) const {
    return static_cast<std::uint32_t>(fminf((best - logit) * bucket_scale, static_cast<float>(kSlots - 1)));
  }
};

// ---- computed by the block together ----

// The sum of the lanes before this one.
__device__ __forceinline__ Wide WarpSumBefore(Wide value) {
  Wide sum = value;
  for (std::uint32_t step = 1; step < 32; step *= 2) {
    const Wide other = __shfl_up_sync(0xFFFFFFFFU, sum, step);
    if (threadIdx.x % 32 >= step) sum += other;
  }
  return sum - value;
}

// Every thread gets the sum over the block.
__device__ Wide BlockTotal(Wide value, Shared& shared) {
  value = WarpSum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared.warp_values[threadIdx.x / 32] = value;
  __syncthreads();
  return WarpSum(shared.warp_values[threadIdx.x % 32]);
}

// The first slot at which the running sum of kSlots values exceeds `threshold`, which must be less than their sum.
// Writes it to shared.slot, and the sum before it to shared.before.
template <typename T>
__device__ void FindSlot(const T* values, Wide threshold, Shared& shared) {
  __syncthreads();
  const std::uint32_t first = 2 * threadIdx.x;
  const Wide a = values[first];
  const Wide b = values[first + 1];
  const Wide before_in_warp = WarpSumBefore(a + b);
  if (threadIdx.x % 32 == 31) shared.warp_values[threadIdx.x / 32] = before_in_warp + a + b;
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32;
  const Wide before_warp = WarpSum(lane < threadIdx.x / 32 ? shared.warp_values[lane] : Wide{0});
  const Wide before = before_warp + before_in_warp;
  if (before <= threshold && threshold < before + a + b) {
    const bool is_first = threshold < before + a;
    shared.slot = is_first ? first : first + 1;
    shared.before = is_first ? before : before + a;
  }
  __syncthreads();
}

// Writes the key of the greedy token to shared.key; sets shared.broken if a logit is NaN.
__device__ void FindBest(const float* logits, std::uint32_t vocab_size, Shared& shared) {
  if (threadIdx.x == 0) shared.broken = 0;
  __syncthreads();
  Wide best = 0;
  for (std::uint32_t token = threadIdx.x; token < vocab_size; token += kThreads) {
    const float logit = logits[token];
    if (logit != logit) {
      atomicExch(&shared.broken, 1U);  // several threads may find one
    } else {
      best = max(best, KeyOf(logit, token));
    }
  }
  best = WarpMax(best);
  if (threadIdx.x % 32 == 0) shared.warp_values[threadIdx.x / 32] = best;
  __syncthreads();
  best = WarpMax(shared.warp_values[threadIdx.x % 32]);
  __syncthreads();
  if (threadIdx.x == 0) shared.key = best;
  __syncthreads();
}

// ---- the order of ids ----

__device__ std::uint32_t DrawById(const Row& row, double uniform, Shared& shared) {
  shared.sums[threadIdx.x] = 0;
  shared.sums[threadIdx.x + kThreads] = 0;
  __syncthreads();
  Wide mine = 0;
  for (std::uint32_t first = 0; first < row.vocab_size; first += kThreads) {
    const std::uint32_t token = first + threadIdx.x;
    const Wide weight = token < row.vocab_size ? row.Weight(row.logits[token]) : 0;
    mine += weight;
    const Wide of_warp = WarpSum(weight);
    if (threadIdx.x % 32 == 0) atomicAdd(&shared.sums[first / kThreads], of_warp);
  }
  const Wide total = BlockTotal(mine, shared);
  const Wide target = min(static_cast<Wide>(uniform * static_cast<double>(total)), total - 1);
  FindSlot(shared.sums, target, shared);
  const std::uint32_t tile = shared.slot;
  const Wide before = shared.before;
  const std::uint32_t token = tile * kThreads + threadIdx.x;
  __syncthreads();
  shared.sums[threadIdx.x] = token < row.vocab_size ? row.Weight(row.logits[token]) : 0;
  shared.sums[threadIdx.x + kThreads] = 0;
  FindSlot(shared.sums, target - before, shared);
  return tile * kThreads + shared.slot;
}

// ---- the order of likelihood ----

enum class Measure : std::uint8_t { kCount, kWeight };

// The token at which a running sum exceeds a threshold.
struct Border {
  Wide key;   // the token there
  Wide past;  // the sum up to and including it
};

class LikeliestFirst {
 public:
  __device__ __forceinline__ LikeliestFirst(const Row& row, Shared& shared) : row_(row), shared_(shared) {}

  __device__ std::uint32_t Draw(const SampleRow& draw, double uniform) {
    FillBuckets();
    const bool cut = draw.top_k > 0 && draw.top_k < row_.vocab_size;
    Wide total = BlockTotal(shared_.weights[threadIdx.x] + shared_.weights[threadIdx.x + kThreads], shared_);
    if (cut) {
      FindSlot(shared_.counts, draw.top_k - 1, shared_);
    } else {
      FindSlot(shared_.weights, ThresholdOf(draw.top_p, total), shared_);
    }
    ListUpTo(shared_.slot);
    if (cut) total = WeightFrom(Find<Measure::kCount>(draw.top_k - 1).key);
    if (draw.top_p != 1.0F) total = Find<Measure::kWeight>(ThresholdOf(draw.top_p, total)).past;
    const Wide target = min(static_cast<Wide>(uniform * static_cast<double>(total)), total - 1);
    return TokenOf(Find<Measure::kWeight>(target).key);
  }

 private:
  // The first token whose running sum exceeds this threshold is the first whose sum reaches the share top_p of the
  // total.
  __device__ static Wide ThresholdOf(float top_p, Wide total) {
    const auto wanted = static_cast<Wide>(ceil(static_cast<double>(top_p) * static_cast<double>(total)));
    return min(max(wanted, Wide{1}), total) - 1;
  }

  __device__ void FillBuckets() {
    for (std::uint32_t i = threadIdx.x; i < kSlots; i += kThreads) {
      shared_.counts[i] = 0;
      shared_.weights[i] = 0;
    }
    __syncthreads();
    for (std::uint32_t token = threadIdx.x; token < row_.vocab_size; token += kThreads) {
      const float logit = row_.logits[token];
      const std::uint32_t bucket = row_.Bucket(logit);
      atomicAdd(&shared_.counts[bucket], 1U);
      const Wide weight = row_.Weight(logit);
      if (weight > 0) atomicAdd(&shared_.weights[bucket], weight);
    }
    __syncthreads();
  }

  // From now on ForEach reads only the buckets up to this one, from the list if they fit.
  __device__ void ListUpTo(std::uint32_t last_bucket) {
    last_bucket_ = last_bucket;
    Wide mine = 0;
    for (std::uint32_t i = threadIdx.x; i <= last_bucket; i += kThreads) mine += shared_.counts[i];
    listed_ = false;
    if (BlockTotal(mine, shared_) > kMaxListed) return;
    if (threadIdx.x == 0) shared_.list_count = 0;
    __syncthreads();
    ForEach([this](Wide key) { shared_.list[atomicAdd(&shared_.list_count, 1U)] = key; });
    __syncthreads();
    listed_ = true;
  }

  template <typename Body>
  __device__ __forceinline__ void ForEach(const Body& body) const {
    if (listed_) {
      for (std::uint32_t i = threadIdx.x; i < shared_.list_count; i += kThreads) body(shared_.list[i]);
      return;
    }
    for (std::uint32_t token = threadIdx.x; token < row_.vocab_size; token += kThreads) {
      const float logit = row_.logits[token];
      if (row_.Bucket(logit) <= last_bucket_) body(KeyOf(logit, token));
    }
  }

  // The weight of all tokens from the likeliest one down to this one.
  __device__ Wide WeightFrom(Wide key) const {
    Wide mine = 0;
    ForEach([&](Wide other) {
      if (other >= key) mine += row_.Weight(LogitOf(other));
    });
    return BlockTotal(mine, shared_);
  }

  // `threshold` must be less than the sum over the listed buckets.
  template <Measure kMeasure>
  __device__ Border Find(Wide threshold) {
    if constexpr (kMeasure == Measure::kCount) {
      FindSlot(shared_.counts, threshold, shared_);
    } else {
      FindSlot(shared_.weights, threshold, shared_);
    }
    const std::uint32_t bucket = shared_.slot;
    Wide before = shared_.before;
    Wide prefix = 0;
    Wide prefix_mask = 0;
    for (std::uint32_t level = 0; level < kDigitCount; ++level) {
      const std::uint32_t shift = level + 1 < kDigitCount ? 64 - (level + 1) * kDigitBits : 0;
      SumDigits<kMeasure>(bucket, prefix, prefix_mask, shift);
      FindSlot(shared_.sums, threshold - before, shared_);
      before += shared_.before;
      // Slots are in the order of likelihood: from the largest digit to the least.
      const Wide digit_mask = (level + 1 < kDigitCount ? Wide{kSlots - 1} << shift : ~prefix_mask);
      prefix |= (Wide{kSlots - 1 - shared_.slot} << shift) & digit_mask;
      prefix_mask |= digit_mask;
      if (shared_.digit_counts[shared_.slot] == 1) break;
    }
    const Wide own = shared_.sums[shared_.slot];
    __syncthreads();
    ForEach([&](Wide key) {
      if ((key & prefix_mask) == prefix && row_.Bucket(LogitOf(key)) == bucket) shared_.key = key;
    });
    __syncthreads();
    return {shared_.key, before + own};
  }

  // Sums the bucket's tokens whose keys begin with the prefix, by their next digit.
  template <Measure kMeasure>
  __device__ void SumDigits(std::uint32_t bucket, Wide prefix, Wide prefix_mask, std::uint32_t shift) {
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < kSlots; i += kThreads) {
      shared_.sums[i] = 0;
      shared_.digit_counts[i] = 0;
    }
    __syncthreads();
    ForEach([&](Wide key) {
      const float logit = LogitOf(key);
      if ((key & prefix_mask) != prefix || row_.Bucket(logit) != bucket) return;
      const auto slot = kSlots - 1 - (static_cast<std::uint32_t>((key & ~prefix_mask) >> shift) & (kSlots - 1));
      atomicAdd(&shared_.digit_counts[slot], 1U);
      const Wide measure = kMeasure == Measure::kCount ? Wide{1} : row_.Weight(logit);
      if (measure > 0) atomicAdd(&shared_.sums[slot], measure);
    });
  }

  const Row& row_;
  Shared& shared_;
  std::uint32_t last_bucket_ = 0;
  bool listed_ = false;
};

// ---- the kernel ----

__device__ SampleStatus StatusOf(const Shared& shared) {
  if (shared.broken != 0) return SampleStatus::kNotANumber;
  const float best = LogitOf(shared.key);
  if (best < kInfinity && best > -kInfinity) return SampleStatus::kSampled;
  return best > 0 ? SampleStatus::kInfinite : SampleStatus::kAllMinusInfinity;
}

// For a draw that has counts: its own row.
__device__ TokenCount* UpdatedCounts(const SampleArgs& args, const SampleRow& draw) {
  TokenCount* counts = args.counts + std::size_t{draw.counts_row} * args.vocab_size;
  if (draw.resets_counts) {
    for (std::uint32_t token = threadIdx.x; token < args.vocab_size; token += kThreads) counts[token] = 0;
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < draw.counted_count; i += kThreads) {
      const CountedToken counted = args.counted[draw.first_counted + i];
      counts[counted.token] = counted.count;
    }
    __syncthreads();
  }
  if (draw.has_newest && threadIdx.x == 0) ++counts[args.tokens[draw.newest]];
  __syncthreads();
  return counts;
}

__device__ void MaskRow(const std::uint32_t* mask, std::uint32_t vocab_size, float* logits) {
  for (std::uint32_t token = threadIdx.x; token < vocab_size; token += kThreads) {
    const bool is_allowed = (mask[token / kMaskBits] >> token % kMaskBits & 1U) != 0;
    logits[token] = Masked(logits[token], is_allowed);
  }
  __syncthreads();
}

// The logits for the draw: the row unchanged, or the draw's own copy with biases, penalties and mask applied.
__device__ const float* AdjustedRow(const SampleArgs& args, const SampleRow& draw) {
  const float* logits = args.logits + std::size_t{draw.row} * args.vocab_size;
  if (!IsAdjusted(draw)) return logits;
  const TokenCount* counts = draw.has_counts ? UpdatedCounts(args, draw) : nullptr;
  float* adjusted = args.adjusted + std::size_t{draw.adjusted_row} * args.vocab_size;
  for (std::uint32_t token = threadIdx.x; token < args.vocab_size; token += kThreads) {
    const TokenCount count = counts == nullptr ? 0 : counts[token];
    const float logit = logits[token];
    adjusted[token] = count == 0 ? logit : Adjusted(logit, AdjustmentOf(0, count, draw.penalties));
  }
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < draw.bias_count; i += kThreads) {
    const LogitBias bias = args.biases[draw.first_bias + i];
    const TokenCount count = counts == nullptr ? 0 : counts[bias.token];
    adjusted[bias.token] = Adjusted(logits[bias.token], AdjustmentOf(bias.bias, count, draw.penalties));
  }
  __syncthreads();
  if (draw.has_mask)
    MaskRow(args.masks + std::size_t{draw.mask_row} * MaskWords(args.vocab_size), args.vocab_size, adjusted);
  return adjusted;
}

__global__ void __launch_bounds__(kThreads) SampleKernel(SampleArgs args) {
  Shared& shared = *reinterpret_cast<Shared*>(DynamicShared());
  const SampleRow draw = args.rows[blockIdx.x];
  const float* logits = AdjustedRow(args, draw);
  FindBest(logits, args.vocab_size, shared);
  SampledToken sampled{.token = TokenOf(shared.key), .status = StatusOf(shared)};
  if (sampled.status != SampleStatus::kSampled) {
    sampled.token = 0;
  } else if (draw.temperature > 0) {
    // With a temperature near 0, the best logit's distance, 0, would be multiplied by infinity.
    constexpr float kMaxBuckets = 1e30F;
    const Row row{.logits = logits,
                  .vocab_size = args.vocab_size,
                  .best = LogitOf(shared.key),
                  .temperature = draw.temperature,
                  .min_p = draw.min_p,
                  .bucket_scale = fminf(kBucketsPerE / draw.temperature, kMaxBuckets)};
    const double uniform = CounterUniform(draw.seed, draw.output_index);
    __syncthreads();
    sampled.token = draw.top_k == 0 && draw.top_p == 1.0F ? DrawById(row, uniform, shared)
                                                          : LikeliestFirst(row, shared).Draw(draw, uniform);
  }
  if (threadIdx.x == 0) args.out[blockIdx.x] = sampled;
}

}  // namespace

void SampleCuda(Device& device, const SampleArgs& args) {
  if (args.row_count == 0) return;
  ROOST_CHECK(args.vocab_size > 0 && args.vocab_size <= kMaxSampledVocab);
  const LaunchShape shape{.grid_x = args.row_count, .threads = kThreads, .shared_bytes = sizeof(Shared)};
  Launch(device, shape, SampleKernel, args);
}

void LoadSampleKernels(Device& device) { Load(device, SampleKernel); }

}  // namespace roost::kernels

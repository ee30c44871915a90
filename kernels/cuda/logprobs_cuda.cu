// A block per row. Thread t scans column t: the tokens t, t + kThreads, t + 2 · kThreads, …. A tournament of the
// columns finds the likeliest tokens: each column enters its best, the overall best is taken, and its column enters the
// next.
#include <algorithm>

#include "common/base/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/token_keys.cuh"
#include "kernels/logprobs.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 1024;
constexpr std::uint32_t kLanes = 32;
constexpr double kWeightUnit = 0x1p44;

struct Columns {
  Wide best[kThreads];  // the best of each column that was not taken yet; 0: none left
  Wide warp_values[kLanes];
};
static_assert(sizeof(Columns) <= kMaxSharedBytes && kThreads == kLanes * kLanes);

// Every thread gets the largest value of the block.
__device__ Wide LargestOfBlock(Wide value, Columns& columns) {
  value = WarpMax(value);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) columns.warp_values[threadIdx.x / kLanes] = value;
  __syncthreads();
  return WarpMax(columns.warp_values[threadIdx.x % kLanes]);
}

// Every thread gets the sum over the block.
__device__ Wide SumOfBlock(Wide value, Columns& columns) {
  value = WarpSum(value);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) columns.warp_values[threadIdx.x / kLanes] = value;
  __syncthreads();
  return WarpSum(columns.warp_values[threadIdx.x % kLanes]);
}

struct LogitsRow {
  const float* logits;
  std::uint32_t vocab_size;

  __device__ __forceinline__ Wide Key(std::uint32_t token) const { return KeyOf(logits[token], token); }

  // The best of a column; one thread computes it.
  __device__ Wide BestOf(std::uint32_t column) const {
    Wide best = 0;
    for (std::uint32_t token = column; token < vocab_size; token += kThreads) best = max(best, Key(token));
    return best;
  }
  // The best of a column below `bound`; a warp computes it together.
  __device__ Wide BestBelow(Wide bound, std::uint32_t column) const {
    Wide best = 0;
    for (std::uint32_t token = column + threadIdx.x % kLanes * kThreads; token < vocab_size;
         token += kLanes * kThreads) {
      const Wide key = Key(token);
      if (key < bound) best = max(best, key);
    }
    return WarpMax(best);
  }
};

__device__ __forceinline__ float LogprobOf(float logit, double log_sum) {
  const double logprob = static_cast<double>(logit) - log_sum;
  return static_cast<float>(logprob > 0 ? 0 : logprob);
}

// The log of the sum of exponentials, and how many tokens are likelier than that of `key`.
struct RowSums {
  double log_sum;
  Wide likelier;
};
__device__ RowSums SumsOf(const LogitsRow& row, float best, Wide key, Columns& columns) {
  Wide weight = 0;
  Wide likelier = 0;
  for (std::uint32_t token = threadIdx.x; token < row.vocab_size; token += kThreads) {
    const double share = exp(static_cast<double>(row.logits[token]) - static_cast<double>(best));
    weight += share <= 1 ? static_cast<Wide>(share * kWeightUnit + 0.5) : 0;  // 0 for NaN, in a broken row
    likelier += row.Key(token) > key ? 1 : 0;
  }
  const double sum = static_cast<double>(SumOfBlock(weight, columns)) / kWeightUnit;
  return {static_cast<double>(best) + log(sum), SumOfBlock(likelier, columns)};
}

__global__ void __launch_bounds__(kThreads) LogprobsKernel(LogprobsArgs args) {
  Columns& columns = *reinterpret_cast<Columns*>(DynamicShared());
  const LogprobsRow wanted = args.rows[blockIdx.x];
  const LogitsRow row{args.logits + std::size_t{wanted.row} * args.vocab_size, args.vocab_size};
  const std::uint32_t token = TokenOf(wanted, args.sampled);
  const Wide own_best = row.BestOf(threadIdx.x);
  columns.best[threadIdx.x] = own_best;
  const float best = LogitOf(LargestOfBlock(own_best, columns));
  const RowSums sums = SumsOf(row, best, row.Key(token), columns);
  if (threadIdx.x == 0) {
    args.out[blockIdx.x] = {.logprob = LogprobOf(row.logits[token], sums.log_sum),
                            .rank = static_cast<std::uint32_t>(sums.likelier) + 1};
  }
  for (std::uint32_t k = 0; k < wanted.top_count; ++k) {
    const Wide winner = LargestOfBlock(columns.best[threadIdx.x], columns);
    const std::uint32_t column = TokenOf(winner) % kThreads;
    if (threadIdx.x < kLanes) {
      const Wide next = row.BestBelow(winner, column);
      if (threadIdx.x == 0) {
        args.top[wanted.first_top + k] = {.token = TokenOf(winner),
                                          .logprob = LogprobOf(LogitOf(winner), sums.log_sum)};
        columns.best[column] = next;
      }
    }
    __syncthreads();
  }
}

}  // namespace

void LogprobsCuda(Device& device, const LogprobsArgs& args) {
  if (args.row_count == 0) return;
  ROOST_CHECK(args.vocab_size > 0 && args.vocab_size <= kMaxSampledVocab);
  const LaunchShape shape{.grid_x = args.row_count, .threads = kThreads, .shared_bytes = sizeof(Columns)};
  Launch(device, shape, LogprobsKernel, args);
}

void LoadLogprobsKernels(Device& device) { Load(device, LogprobsKernel); }

}  // namespace roost::kernels

// A block per row. The row stays in shared memory between the sum of its squares and its scaling; each thread reads
// back what it wrote itself.
#include "common/base/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/rms_norm.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kMaxThreads = 1024;

static_assert(kMaxNormedWidth * sizeof(float) + sizeof(BlockSums) <= kMaxSharedBytes);

template <std::uint32_t kCount>
__global__ void RmsNormKernel(RmsNormArgs args) {
  auto* row = reinterpret_cast<float*>(DynamicShared());
  ROOST_SHARED(BlockSums, sums);
  const std::uint32_t source_row = args.row_indices != nullptr ? args.row_indices[blockIdx.x] : blockIdx.x;
  float* hidden = args.hidden + std::size_t{source_row} * args.width;
  const auto* delta = static_cast<const std::uint16_t*>(args.delta);
  if (delta != nullptr) delta += std::size_t{source_row} * args.width;
  auto* out = static_cast<std::uint16_t*>(args.out) + std::size_t{blockIdx.x} * args.width;
  const std::uint32_t first = threadIdx.x * kCount;
  const std::uint32_t stride = blockDim.x * kCount;

  float squares = 0;
  for (std::uint32_t i = first; i < args.width; i += stride) {
    float values[kCount];
    LoadF32(hidden + i, values);
    if (delta != nullptr) {
      float added[kCount];
      LoadBF16(delta + i, added);
#pragma unroll
      for (std::uint32_t j = 0; j < kCount; ++j) values[j] += added[j];
      StoreF32(values, hidden + i);
    }
    StoreF32(values, row + i);
#pragma unroll
    for (std::uint32_t j = 0; j < kCount; ++j) squares += values[j] * values[j];
  }
  const float mean = BlockSum(squares, sums) / static_cast<float>(args.width);
  const float scale = 1 / sqrtf(mean + args.epsilon);
  for (std::uint32_t i = first; i < args.width; i += stride) {
    float values[kCount];
    float weights[kCount];
    LoadF32(row + i, values);
    LoadF32(args.weight + i, weights);
#pragma unroll
    for (std::uint32_t j = 0; j < kCount; ++j) values[j] = values[j] * scale * weights[j];
    StoreBF16(values, out + i);
  }
}

}  // namespace

void RmsNormCuda(Device& device, const RmsNormArgs& args) {
  if (args.rows == 0) return;
  ROOST_CHECK(args.out_dtype == DType::kBF16 && (args.delta == nullptr || args.delta_dtype == DType::kBF16));
  const bool vectors = args.width % kVectorElements == 0;
  const std::uint32_t items = vectors ? args.width / kVectorElements : args.width;
  const LaunchShape shape{.grid_x = args.rows,
                          .threads = BlockThreads(items, kMaxThreads),
                          .shared_bytes = args.width * static_cast<std::uint32_t>(sizeof(float))};
  ROOST_CHECK(args.width <= kMaxNormedWidth, "rows of {}", args.width);
  Launch(device, shape, vectors ? RmsNormKernel<kVectorElements> : RmsNormKernel<1>, args);
}

void LoadRmsNormKernels(Device& device) { Load(device, RmsNormKernel<kVectorElements>, RmsNormKernel<1>); }

}  // namespace roost::kernels

// A block per row.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/gather_embedding.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kMaxThreads = 256;

template <DType kTable>
__device__ __forceinline__ float Element(const void* table, std::size_t index) {
  if constexpr (kTable == DType::kF32) return static_cast<const float*>(table)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(table)[index];
  if constexpr (kTable == DType::kBF16) return BF16ToFloat(bits);
  return F16ToFloat(bits);
}

template <DType kTable>
__global__ void GatherKernel(GatherEmbeddingArgs args) {
  const std::uint32_t row = TableRowOf(args, args.tokens[blockIdx.x]);
  const bool has = row < args.token_count;
  const std::size_t from = row * std::size_t{args.width};
  float* out = args.out + std::size_t{blockIdx.x} * args.width;
  for (std::uint32_t i = threadIdx.x; i < args.width; i += blockDim.x) {
    out[i] = has ? Element<kTable>(args.table, from + i) : 0;
  }
}

// For rows of bf16 whose width is a multiple of kVectorElements, as in nearly all models.
__global__ void GatherVectorsKernel(GatherEmbeddingArgs args) {
  const std::uint32_t row = TableRowOf(args, args.tokens[blockIdx.x]);
  const bool has = row < args.token_count;
  const auto* from = static_cast<const std::uint16_t*>(args.table) + row * std::size_t{args.width};
  float* out = args.out + std::size_t{blockIdx.x} * args.width;
  for (std::uint32_t i = threadIdx.x * kVectorElements; i < args.width; i += blockDim.x * kVectorElements) {
    float values[kVectorElements] = {};
    if (has) LoadBF16(from + i, values);
    StoreF32(values, out + i);
  }
}

}  // namespace

void GatherEmbeddingCuda(Device& device, const GatherEmbeddingArgs& args) {
  if (args.rows == 0) return;
  const bool vectors = args.width % kVectorElements == 0;
  LaunchShape shape{.grid_x = args.rows, .threads = BlockThreads(args.width, kMaxThreads)};
  switch (args.table_dtype) {
    case DType::kF32: Launch(device, shape, GatherKernel<DType::kF32>, args); return;
    case DType::kF16: Launch(device, shape, GatherKernel<DType::kF16>, args); return;
    case DType::kBF16: break;
  }
  if (!vectors) {
    Launch(device, shape, GatherKernel<DType::kBF16>, args);
    return;
  }
  shape.threads = BlockThreads(args.width / kVectorElements, kMaxThreads);
  Launch(device, shape, GatherVectorsKernel, args);
}

void LoadGatherEmbeddingKernels(Device& device) {
  Load(device, GatherKernel<DType::kF32>, GatherKernel<DType::kF16>, GatherKernel<DType::kBF16>, GatherVectorsKernel);
}

}  // namespace roost::kernels

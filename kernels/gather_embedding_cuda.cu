// A block per row.
#include "kernels/gather_embedding.h"
#include "kernels/vector_io.cuh"

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
  const std::size_t from = args.tokens[blockIdx.x] * std::size_t{args.width};
  float* out = args.out + std::size_t{blockIdx.x} * args.width;
  for (std::uint32_t i = threadIdx.x; i < args.width; i += blockDim.x) out[i] = Element<kTable>(args.table, from + i);
}

// Rows of bf16 whose width is a multiple of kVectorElements: of nearly all models.
__global__ void GatherVectorsKernel(GatherEmbeddingArgs args) {
  const auto* row = static_cast<const std::uint16_t*>(args.table) + args.tokens[blockIdx.x] * std::size_t{args.width};
  float* out = args.out + std::size_t{blockIdx.x} * args.width;
  for (std::uint32_t i = threadIdx.x * kVectorElements; i < args.width; i += blockDim.x * kVectorElements) {
    float values[kVectorElements];
    LoadBF16(row + i, values);
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

}  // namespace roost::kernels

// A thread per vector of a row; blocks along x, rows along y.
#include <algorithm>

#include "common/base/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/silu_mul.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kMaxGridY = 65535;

__device__ __forceinline__ float Silu(float x) {
  constexpr float kLog2OfE = 1.44269504088896340736F;
  return x / (1 + FastExp2(-x * kLog2OfE));
}

template <std::uint32_t kCount>
__global__ void SiluMulKernel(SiluMulArgs args) {
  const std::uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * kCount;
  if (i >= args.width) return;
  for (std::uint32_t r = blockIdx.y; r < args.rows; r += gridDim.y) {
    const auto* gate = static_cast<const std::uint16_t*>(args.gate_up) + std::size_t{r} * 2 * args.width + i;
    float gates[kCount];
    float ups[kCount];
    LoadBF16(gate, gates);
    LoadBF16(gate + args.width, ups);
#pragma unroll
    for (std::uint32_t j = 0; j < kCount; ++j) ups[j] *= Silu(gates[j]);
    StoreBF16(ups, static_cast<std::uint16_t*>(args.out) + std::size_t{r} * args.width + i);
  }
}

}  // namespace

void SiluMulCuda(Device& device, const SiluMulArgs& args) {
  if (args.rows == 0) return;
  ROOST_CHECK(args.out_dtype == DType::kBF16 && args.gate_up_dtype == DType::kBF16);
  const bool vectors = args.width % kVectorElements == 0;
  const std::uint32_t items = vectors ? args.width / kVectorElements : args.width;
  const std::uint32_t threads = BlockThreads(items, kThreads);
  const LaunchShape shape{
      .grid_x = (items + threads - 1) / threads, .grid_y = std::min(args.rows, kMaxGridY), .threads = threads};
  Launch(device, shape, vectors ? SiluMulKernel<kVectorElements> : SiluMulKernel<1>, args);
}

void LoadSiluMulKernels(Device& device) { Load(device, SiluMulKernel<kVectorElements>, SiluMulKernel<1>); }

}  // namespace roost::kernels

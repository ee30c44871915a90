// Angles: a thread each. Heads: a warp each, so that a head's norm is a sum over a warp. One launch has the warps of q,
// K and V, which differ in their target and in what is done to them.
#include "common/base/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/vector_io.cuh"
#include "kernels/rope.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kAngleThreads = 128;
constexpr std::uint32_t kWarps = 8;

// Sine and cosine of an angle of any size. The angle is reduced to a quarter turn in f64; there a few terms of the
// Taylor series are within 1e-7. The library's functions would keep a table on the stack for large angles.
__device__ __forceinline__ void SinCos(float angle, float& sin, float& cos) {
  constexpr double kQuarterTurn = 1.57079632679489661923;
  constexpr double kQuarterTurnRest = 6.12323399573676603587e-17;  // π/2 minus the nearest double
  const double turns = rint(double{angle} / kQuarterTurn);
  const auto x = static_cast<float>(fma(-turns, kQuarterTurnRest, fma(-turns, kQuarterTurn, double{angle})));
  const float square = x * x;
  const float s =
      x * (1 + square * (-1.0F / 6 + square * (1.0F / 120 + square * (-1.0F / 5040 + square * (1.0F / 362880)))));
  const float c = 1 + square * (-0.5F + square * (1.0F / 24 + square * (-1.0F / 720 + square * (1.0F / 40320))));
  switch (static_cast<long long>(turns) & 3) {
    case 0: sin = s, cos = c; return;
    case 1: sin = c, cos = -s; return;
    case 2: sin = -s, cos = -c; return;
    default: sin = -c, cos = s; return;
  }
}

__global__ void RopeAnglesKernel(RopeAnglesArgs args) {
  const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= std::size_t{args.rows} * args.half_dim) return;
  const auto position = static_cast<float>(args.positions[index / args.half_dim]);
  const float angle = position * args.inverse_frequencies[index % args.half_dim];
  SinCos(angle, args.sin[index], args.cos[index]);
}

// Writes the warp's head to `out`: normed if there is a weight, and rotated.
template <std::uint32_t kCount>
__device__ __forceinline__ void NormRotate(const std::uint16_t* head, const float* weight, float epsilon,
                                           std::uint32_t half, const float* cos, const float* sin, std::uint16_t* out) {
  const std::uint32_t first = threadIdx.x % 32 * kCount;
  float scale = 1;
  if (weight != nullptr) {
    float squares = 0;
    for (std::uint32_t i = first; i < 2 * half; i += 32 * kCount) {
      float values[kCount];
      LoadBF16(head + i, values);
#pragma unroll
      for (std::uint32_t j = 0; j < kCount; ++j) squares += values[j] * values[j];
    }
    scale = 1 / sqrtf(WarpSum(squares) / static_cast<float>(2 * half) + epsilon);
  }
  for (std::uint32_t i = first; i < half; i += 32 * kCount) {
    float a[kCount];
    float b[kCount];
    LoadBF16(head + i, a);
    LoadBF16(head + half + i, b);
#pragma unroll
    for (std::uint32_t j = 0; j < kCount; ++j) {
      const float x = weight != nullptr ? a[j] * scale * weight[i + j] : a[j];
      const float y = weight != nullptr ? b[j] * scale * weight[half + i + j] : b[j];
      a[j] = x * cos[i + j] - y * sin[i + j];
      b[j] = y * cos[i + j] + x * sin[i + j];
    }
    StoreBF16(a, out + i);
    StoreBF16(b, out + half + i);
  }
}

template <std::uint32_t kCount>
__global__ void RopeToCacheKernel(RopeToCacheArgs args) {
  const KvLayout& kv = args.kv;
  const std::uint32_t r = blockIdx.x;
  const std::uint32_t h = blockIdx.y * kWarps + threadIdx.x / 32;
  const std::uint32_t head_count = args.query_head_count + 2 * kv.kv_head_count;
  if (h >= head_count) return;
  const std::uint32_t half = kv.head_dim / 2;
  const auto* head = static_cast<const std::uint16_t*>(args.qkv) + (std::size_t{r} * head_count + h) * kv.head_dim;
  const float* cos = args.cos + std::size_t{r} * half;
  const float* sin = args.sin + std::size_t{r} * half;
  if (h < args.query_head_count) {
    auto* q = static_cast<std::uint16_t*>(args.q) + (std::size_t{r} * args.query_head_count + h) * kv.head_dim;
    NormRotate<kCount>(head, args.q_norm, args.epsilon, half, cos, sin, q);
    return;
  }
  const std::uint32_t block = args.slots[r] / kv.block_tokens;
  auto* row = static_cast<std::uint16_t*>(kv.base) + std::size_t{args.slots[r] % kv.block_tokens} * kv.head_dim;
  const std::uint32_t kv_head = (h - args.query_head_count) % kv.kv_head_count;
  if (h < args.query_head_count + kv.kv_head_count) {
    std::uint16_t* k = row + kv.KOffset(block, args.layer, kv_head);
    NormRotate<kCount>(head, args.k_norm, args.epsilon, half, cos, sin, k);
    return;
  }
  std::uint16_t* v = row + kv.VOffset(block, args.layer, kv_head);
  for (std::uint32_t i = threadIdx.x % 32 * kCount; i < kv.head_dim; i += 32 * kCount) {
    float values[kCount];
    LoadBF16(head + i, values);
    StoreBF16(values, v + i);
  }
}

}  // namespace

void RopeAnglesCuda(Device& device, const RopeAnglesArgs& args) {
  const std::size_t count = std::size_t{args.rows} * args.half_dim;
  if (count == 0) return;
  const LaunchShape shape{.grid_x = static_cast<std::uint32_t>((count + kAngleThreads - 1) / kAngleThreads),
                          .threads = kAngleThreads};
  Launch(device, shape, RopeAnglesKernel, args);
}

void RopeToCacheCuda(Device& device, const RopeToCacheArgs& args) {
  if (args.rows == 0) return;
  ROOST_CHECK(args.activation_dtype == DType::kBF16 && args.kv.dtype == DType::kBF16);
  const std::uint32_t head_count = args.query_head_count + 2 * args.kv.kv_head_count;
  const LaunchShape shape{.grid_x = args.rows, .grid_y = (head_count + kWarps - 1) / kWarps, .threads = kWarps * 32};
  const bool pairs = args.kv.head_dim % 4 == 0;  // both halves then begin at multiples of 4 bytes
  Launch(device, shape, pairs ? RopeToCacheKernel<2> : RopeToCacheKernel<1>, args);
}

void LoadRopeKernels(Device& device) { Load(device, RopeAnglesKernel, RopeToCacheKernel<2>, RopeToCacheKernel<1>); }

}  // namespace roost::kernels

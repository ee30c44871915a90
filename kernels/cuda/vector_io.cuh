// Reads and writes of several consecutive elements at once, and sums over the threads of a block. For kernels that
// memory bandwidth limits: 16 bytes per access if the width of a row allows it.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_primitives.cuh"
#include "kernels/dtype.h"

namespace roost::kernels {

// Elements of a bf16 access of 16 bytes.
inline constexpr std::uint32_t kVectorElements = 8;

// bf16 from an address that is a multiple of 16 (kCount 8), 4 (2) or 2 (1).
template <std::uint32_t kCount>
__device__ __forceinline__ void LoadBF16(const std::uint16_t* from, float (&to)[kCount]) {
  static_assert(kCount == 8 || kCount == 2 || kCount == 1);
  if constexpr (kCount == 8) {
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    to[0] = BF16Low(bits.x), to[1] = BF16High(bits.x);
    to[2] = BF16Low(bits.y), to[3] = BF16High(bits.y);
    to[4] = BF16Low(bits.z), to[5] = BF16High(bits.z);
    to[6] = BF16Low(bits.w), to[7] = BF16High(bits.w);
  } else if constexpr (kCount == 2) {
    const std::uint32_t bits = *reinterpret_cast<const std::uint32_t*>(from);
    to[0] = BF16Low(bits), to[1] = BF16High(bits);
  } else {
    to[0] = BF16Low(*from);
  }
}

template <std::uint32_t kCount>
__device__ __forceinline__ void StoreBF16(const float (&from)[kCount], std::uint16_t* to) {
  static_assert(kCount == 8 || kCount == 2 || kCount == 1);
  if constexpr (kCount == 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(PackBF16(from[0], from[1]), PackBF16(from[2], from[3]),
                                               PackBF16(from[4], from[5]), PackBF16(from[6], from[7]));
  } else if constexpr (kCount == 2) {
    *reinterpret_cast<std::uint32_t*>(to) = PackBF16(from[0], from[1]);
  } else {
    *to = RoundToBF16(from[0]);
  }
}

// f32 from an address that is a multiple of 16 (if kCount is a multiple of 4), else of 4.
template <std::uint32_t kCount>
__device__ __forceinline__ void LoadF32(const float* from, float (&to)[kCount]) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (std::uint32_t i = 0; i < kCount; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (std::uint32_t i = 0; i < kCount; ++i) to[i] = from[i];
  }
}

template <std::uint32_t kCount>
__device__ __forceinline__ void StoreF32(const float (&from)[kCount], float* to) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (std::uint32_t i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
    }
  } else {
#pragma unroll
    for (std::uint32_t i = 0; i < kCount; ++i) to[i] = from[i];
  }
}

// Every lane gets the sum over the warp.
__device__ __forceinline__ float WarpSum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

// Every lane gets the largest value of the warp.
__device__ __forceinline__ float WarpMax(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  return value;
}

// Every thread gets the sum over the block. Nothing else may use `sums`, which is shared memory, meanwhile.
using BlockSums = float[32];
__device__ __forceinline__ float BlockSum(float value, BlockSums& sums) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32;
  return WarpSum(lane < blockDim.x / 32 ? sums[lane] : 0.0F);
}

// The number of threads for `items` pieces of work per block: a multiple of 32, at most `most`.
constexpr std::uint32_t BlockThreads(std::uint32_t items, std::uint32_t most) {
  const std::uint32_t threads = (items + 31) / 32 * 32;
  return threads < 32 ? 32 : threads < most ? threads : most;
}

}  // namespace roost::kernels

// A token and its logit as one number, so that comparing numbers compares likelihood; and warp operations on such
// numbers. For kernels that scan rows of logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_primitives.cuh"

namespace roost::kernels {

using Wide = unsigned long long;  // the type of atomicAdd

// Grows with the logit; for equal logits, with a lower id. -0 counts as 0. Not for NaN. Never 0.
__device__ __forceinline__ Wide KeyOf(float logit, std::uint32_t token) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0F);
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return Wide{ordered} << 32U | static_cast<std::uint32_t>(~token);
}
__device__ __forceinline__ float LogitOf(Wide key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32U);
  return __uint_as_float((ordered & 0x80000000U) != 0 ? ordered & 0x7FFFFFFFU : ~ordered);
}
__device__ __forceinline__ std::uint32_t TokenOf(Wide key) { return ~static_cast<std::uint32_t>(key); }

__device__ __forceinline__ Wide WarpMax(Wide value) {
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(0xFFFFFFFFU, value, step));
  return value;
}

__device__ __forceinline__ Wide WarpSum(Wide value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

}  // namespace roost::kernels

// The SIMT shim: CUDA's names for g++, so that a kernel's .cu compiles as C++ and its threads run as fibers on the CPU.
// For tests only. See block.h for what it guarantees and finds.
//
// A kernel compiles for both if:
//   - it includes kernels/cuda/cuda_primitives.cuh and no CUDA header; everything beyond the names below (tensor cores,
//     ldmatrix, cp.async, bf16, fast functions, launches) is a function of that header;
//   - shared memory is DynamicShared() or ROOST_SHARED(type, name), never a plain __shared__;
//   - its op function launches with Launch(device, shape, kernel, arguments …) of that header.
//
// To test it: roost_simt_sources(<target> kernels/cuda/x_cuda.cu …) in CMake compiles the kernels with this header in
// front. The test, a roost_test with the label simt, calls the op function with a roost::simt::Device (device.h) and
// pointers to plain memory:
//
//   simt::Device device;               // seed 0; another seed runs the threads in a different order
//   RmsNormCuda(device, args);
//   device.counters().matrix_load_conflicts
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/support/simt/block.h"

#define ROOST_SIMT 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (::roost::simt::Block::Current().thread_index())
#define blockIdx (::roost::simt::Block::Current().index())
#define blockDim (::roost::simt::Block::Current().shape())
#define gridDim (::roost::simt::Block::Current().grid())
#define warpSize 32

#define __syncthreads() ::roost::simt::Block::Current().SyncThreads({__FILE__, __LINE__})
#define __syncwarp(...) ::roost::simt::Block::Current().SyncWarp({__FILE__, __LINE__} __VA_OPT__(, ) __VA_ARGS__)

// ---- CUDA's vector types ----
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- arithmetic ----
using std::max;
using std::min;
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
template <typename T>
T __ldg(const T* from) {
  return *from;
}

// ---- atomics; threads run one at a time ----
namespace roost::simt {

void NoteAtomic(const void* address, std::size_t bytes);

// Its load and its store are not reported as plain ones.
template <typename T, typename Change>
__attribute__((no_sanitize("thread"))) T Atomic(T* to, const Change& change) {
  NoteAtomic(to, sizeof(T));
  const T old = *to;
  *to = change(old);
  return old;
}

}  // namespace roost::simt

template <typename T>
T atomicAdd(T* to, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [value](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicMax(T* to, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [value](T old) { return old < value ? value : old; });
}
template <typename T>
T atomicMin(T* to, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [value](T old) { return value < old ? value : old; });
}
template <typename T>
T atomicOr(T* to, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [value](T old) { return old | value; });
}
template <typename T>
T atomicExch(T* to, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [value](T /*old*/) { return value; });
}
template <typename T>
T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return ::roost::simt::Atomic(to, [expected, value](T old) { return old == expected ? value : old; });
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- warps ----
namespace roost::simt {

// Lane `i` of the mask gets the value of the lane `source` that it names; aborts if that lane is not in the mask.
std::uint64_t Shuffle(const char* what, std::uint32_t mask, std::uint64_t value, std::uint32_t source);
// Bit i: lane i is in the mask and its predicate holds.
std::uint32_t Ballot(const char* what, std::uint32_t mask, int predicate);

template <typename T>
T ShuffleAny(const char* what, std::uint32_t mask, T value, std::uint32_t source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Shuffle(what, mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// The lane at `to`, or the lane itself if that is outside of its segment of `width` lanes.
inline std::uint32_t InSegment(std::uint32_t lane, std::int64_t to, int width) {
  const auto segment = static_cast<std::uint32_t>(width);
  const std::uint32_t first = lane / segment * segment;
  return to >= first && to < first + segment ? static_cast<std::uint32_t>(to) : lane;
}

}  // namespace roost::simt

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const std::uint32_t lane = ::roost::simt::Block::Current().lane();
  const auto segment = static_cast<std::uint32_t>(width);
  return ::roost::simt::ShuffleAny("__shfl_sync", mask, value,
                                   lane / segment * segment + static_cast<std::uint32_t>(source) % segment);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const std::uint32_t lane = ::roost::simt::Block::Current().lane();
  return ::roost::simt::ShuffleAny("__shfl_xor_sync", mask, value,
                                   ::roost::simt::InSegment(lane, lane ^ static_cast<std::uint32_t>(lane_mask), width));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const std::uint32_t lane = ::roost::simt::Block::Current().lane();
  return ::roost::simt::ShuffleAny("__shfl_down_sync", mask, value,
                                   ::roost::simt::InSegment(lane, std::int64_t{lane} + delta, width));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const std::uint32_t lane = ::roost::simt::Block::Current().lane();
  return ::roost::simt::ShuffleAny("__shfl_up_sync", mask, value,
                                   ::roost::simt::InSegment(lane, std::int64_t{lane} - delta, width));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::roost::simt::Ballot("__ballot_sync", mask, predicate);
}
inline int __any_sync(unsigned mask, int predicate) {
  return ::roost::simt::Ballot("__any_sync", mask, predicate) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return ::roost::simt::Ballot("__all_sync", mask, predicate) == mask ? 1 : 0;
}

#define ROOST_SHARED(type, name) \
  static char name##_site;       \
  type& name = *static_cast<type*>(::roost::simt::Block::Current().StaticShared(&name##_site, sizeof(type)))

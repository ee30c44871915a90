// Wrappers that CUDA kernels need beyond plain CUDA C++: one function per PTX instruction, shared memory, and the
// launch. A .cu file includes this and no CUDA header, so that the tests' SIMT shim can also compile it as C++; the
// shim has its own function bodies.
//
// All 32 lanes of a warp must call a warp function together. Fragments are PTX's. Lane 4·g + t holds:
//
// clang-format off
//   fragment   size     type   registers    row       columns of A and C, rows of B
//   A          16 x 16  bf16   a[0]         g         2t, 2t+1
//                              a[1]         g+8       2t, 2t+1
//                              a[2]         g         2t+8, 2t+9
//                              a[3]         g+8       2t+8, 2t+9
//   B          16 x 8   bf16   b[0]         column g  2t, 2t+1
//                              b[1]         column g  2t+8, 2t+9
//   C          16 x 8   f32    c[0], c[1]   g         2t, 2t+1
//                              c[2], c[3]   g+8       2t, 2t+1
// clang-format on
//
// The low half of two bf16 in 32 bits is the first.
// Source: NVIDIA: PTX ISA 9.0, mma.m16n8k16, ldmatrix, cp.async, ex2.approx, cvt.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cuda_limits.h"
#include "kernels/device.h"

#ifdef ROOST_SIMT
#define ROOST_DEVICE  // declarations only; the shim has the bodies
#else
#include <cuda_runtime.h>
#define ROOST_DEVICE __device__ __forceinline__
// An uninitialised object in the block's shared memory. For an array: using Sums = float[32]; ROOST_SHARED(Sums, sums);
#define ROOST_SHARED(type, name) __shared__ type name
#endif

namespace roost::kernels {

// The lane of the warp, threadIdx.x mod 32. Each call reads it again, so that the compiler recomputes what depends on
// it instead of keeping it in scarce registers.
ROOST_DEVICE std::uint32_t LaneId();

// ---- shared memory ----

// The launch's dynamic shared memory, aligned to 128 bytes.
ROOST_DEVICE std::byte* DynamicShared();

// Copies 16 bytes from global to shared memory, both aligned to 16, without waiting. The issuing thread may read them
// after waiting for its group, other threads after a barrier behind that.
ROOST_DEVICE void CopyAsync16(void* to_shared, const void* from);
// The same, or writes zeros where `valid` is 0; then `from` must be aligned, but is not read.
ROOST_DEVICE void CopyAsync16OrZero(void* to_shared, const void* from, std::uint32_t valid);
// The thread's copies since the last call become one group.
ROOST_DEVICE void CommitCopies();
// Waits until at most the kPending youngest groups of this thread are under way.
template <int kPending>
ROOST_DEVICE void WaitForCopies();

// ---- tensor cores ----

// Four 8 x 8 matrices of 2-byte elements. Lanes 8i … 8i+7 give the addresses of matrix i's rows: 16 bytes in shared
// memory, aligned to 16. out[i] of lane 4·g + t: row g, columns 2t, 2t+1 of matrix i.
ROOST_DEVICE void LoadMatrices(const void* row, std::uint32_t (&out)[4]);
// The same for the transposed matrices: rows 2t, 2t+1 of column g.
ROOST_DEVICE void LoadMatricesTransposed(const void* row, std::uint32_t (&out)[4]);

// c += a · b.
ROOST_DEVICE void MultiplyAdd16x8x16(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (&c)[4]);

// ---- numbers ----

ROOST_DEVICE float FastExp2(float x);                        // 2^x within 2 ulp; 2^-inf = 0; results below 2^-126 are 0
ROOST_DEVICE std::uint16_t RoundToBF16(float x);             // to nearest, ties to even
ROOST_DEVICE std::uint32_t PackBF16(float low, float high);  // rounds as above
ROOST_DEVICE float BF16Low(std::uint32_t two);
ROOST_DEVICE float BF16High(std::uint32_t two);

// ---- launches, from the host ----

struct LaunchShape {
  std::uint32_t grid_x = 1;
  std::uint32_t grid_y = 1;
  std::uint32_t grid_z = 1;
  std::uint32_t threads = 32;      // of a block: a multiple of 32, at most 1,024
  std::uint32_t shared_bytes = 0;  // DynamicShared; with what the kernel declares at most kMaxSharedBytes
};

// The backend defines it: how many multiprocessors the device has.
[[nodiscard]] std::uint32_t MultiprocessorCount(Device& device);

#ifdef ROOST_SIMT

// Runs `thread` once for each thread of the grid; while the device records, at each replay.
void LaunchThreads(Device& device, const LaunchShape& shape, const std::function<void()>& thread);

template <typename... Params, typename... Args>
void Launch(Device& device, const LaunchShape& shape, void (*kernel)(Params...), const Args&... args) {
  LaunchThreads(device, shape, [kernel, args...] { kernel(args...); });
}

template <typename... Kernels>
void Load(Device& /*device*/, Kernels*... /*kernels*/) {}

template <typename... Params>
std::uint32_t ConcurrentBlocks(Device& device, const LaunchShape& /*shape*/, void (* /*kernel*/)(Params...)) {
  return MultiprocessorCount(device);
}

#else

// The backend defines these two: the stream of the device's ops, and the check behind each launch: a failed launch ends
// the process with one line.
[[nodiscard]] cudaStream_t StreamOf(Device& device);
void CheckLaunch(Device& device, cudaError_t error);
// Call it before a launch of the kernel with this much dynamic shared memory. Asks the device only when the kernel
// needs more than before.
void AllowShared(Device& device, const void* kernel, std::uint32_t bytes);
void LoadKernel(Device& device, const void* kernel);

// Returns at once. Arguments are copied.
template <typename... Params, typename... Args>
void Launch(Device& device, const LaunchShape& shape, void (*kernel)(Params...), const Args&... args) {
  AllowShared(device, reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  kernel<<<dim3(shape.grid_x, shape.grid_y, shape.grid_z), shape.threads, shape.shared_bytes, StreamOf(device)>>>(
      args...);
  CheckLaunch(device, cudaGetLastError());
}

// Loads the kernels' code, which otherwise happens at each one's first launch.
template <typename... Kernels>
void Load(Device& device, Kernels*... kernels) {
  (LoadKernel(device, reinterpret_cast<const void*>(kernels)), ...);
}

// The number of blocks of such launches that the device runs at the same time.
template <typename... Params>
[[nodiscard]] std::uint32_t ConcurrentBlocks(Device& device, const LaunchShape& shape, void (*kernel)(Params...)) {
  AllowShared(device, reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  int of_multiprocessor = 0;
  CheckLaunch(device, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                          &of_multiprocessor, kernel, static_cast<int>(shape.threads), shape.shared_bytes));
  return MultiprocessorCount(device) * static_cast<std::uint32_t>(of_multiprocessor);
}

#endif

}  // namespace roost::kernels

#ifndef ROOST_SIMT

// ---- the bodies, as PTX ----

namespace roost::kernels {
namespace internal {

ROOST_DEVICE std::uint32_t SharedAddress(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace internal

ROOST_DEVICE std::uint32_t LaneId() {
  std::uint32_t lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

ROOST_DEVICE std::byte* DynamicShared() {
  extern __shared__ __align__(128) std::byte roost_dynamic_shared[];
  return roost_dynamic_shared;
}

ROOST_DEVICE void CopyAsync16(void* to_shared, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(internal::SharedAddress(to_shared)), "l"(from)
               : "memory");
}

ROOST_DEVICE void CopyAsync16OrZero(void* to_shared, const void* from, std::uint32_t valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(internal::SharedAddress(to_shared)),
               "l"(from), "r"(valid != 0 ? 16U : 0U)
               : "memory");
}

ROOST_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
ROOST_DEVICE void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

ROOST_DEVICE void LoadMatrices(const void* row, std::uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(internal::SharedAddress(row))
               : "memory");
}

ROOST_DEVICE void LoadMatricesTransposed(const void* row, std::uint32_t (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(internal::SharedAddress(row))
               : "memory");
}

ROOST_DEVICE void MultiplyAdd16x8x16(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

ROOST_DEVICE float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

ROOST_DEVICE std::uint16_t RoundToBF16(float x) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

ROOST_DEVICE std::uint32_t PackBF16(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

ROOST_DEVICE float BF16Low(std::uint32_t two) { return __uint_as_float(two << 16U); }
ROOST_DEVICE float BF16High(std::uint32_t two) { return __uint_as_float(two & 0xFFFF0000U); }

}  // namespace roost::kernels

#endif

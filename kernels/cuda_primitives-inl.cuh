// The bodies of cuda_primitives.cuh as PTX; only that file includes this one.
#pragma once

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

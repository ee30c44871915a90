#include "common/base/check.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/silu_mul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/silu_mul_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

template <typename Out>
HWY_INLINE void SiluMulRow(const float* gate, std::size_t width, Out* out) {
  const float* up = gate + width;
  ForLanes(width, [&](auto d, std::size_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, gate + i);
    // Limits exp to avoid overflow: below -87 the result is 0 in f32 anyway.
    const auto negated = hn::Min(hn::Neg(g), hn::Set(d, 87.0F));
    const auto silu = hn::Div(g, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, negated)));
    StoreNarrow(hn::Mul(silu, hn::LoadU(d, up + i)), d, out + i);
  });
}

void SiluMulRows(const SiluMulArgs& args, std::uint32_t begin, std::uint32_t end) {
  const std::size_t width = args.width;
  for (std::size_t r = begin; r < end; ++r) {
    const float* gate = static_cast<const float*>(args.gate_up) + r * 2 * width;
    if (args.out_dtype == DType::kF32) {
      SiluMulRow(gate, width, static_cast<float*>(args.out) + r * width);
    } else {
      SiluMulRow(gate, width, static_cast<std::uint16_t*>(args.out) + r * width);
    }
  }
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(SiluMulRows);
}  // namespace

void SiluMulCpu(Device& device, const SiluMulArgs& args) {
  ROOST_CHECK(args.gate_up_dtype == DType::kF32);
  ParallelRows(CpuDevice::Of(device), args.rows, args.width, [&](std::uint32_t begin, std::uint32_t end) {
    HWY_DYNAMIC_DISPATCH(SiluMulRows)(args, begin, end);
  });
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

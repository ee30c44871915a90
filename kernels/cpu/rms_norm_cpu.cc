#include <cmath>

#include "common/base/check.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

template <typename Out>
HWY_INLINE void RmsNormRow(const RmsNormArgs& args, float* hidden, const float* delta, Out* out) {
  if (delta != nullptr) {
    ForLanes(args.width, [&](auto d, std::size_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, hidden + i), hn::LoadU(d, delta + i)), d, hidden + i);
    });
  }
  const float mean = SumOfSquares(hidden, args.width) / static_cast<float>(args.width);
  const float scale = 1 / std::sqrt(mean + args.epsilon);
  ForLanes(args.width, [&](auto d, std::size_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, hidden + i), hn::Set(d, scale));
    StoreNarrow(hn::Mul(scaled, hn::LoadU(d, args.weight + i)), d, out + i);
  });
}

void RmsNormRows(const RmsNormArgs& args, std::uint32_t begin, std::uint32_t end) {
  const std::size_t width = args.width;
  for (std::size_t r = begin; r < end; ++r) {
    const std::size_t source = (args.row_indices != nullptr ? args.row_indices[r] : r) * width;
    const float* delta = args.delta != nullptr ? static_cast<const float*>(args.delta) + source : nullptr;
    if (args.out_dtype == DType::kF32) {
      RmsNormRow(args, args.hidden + source, delta, static_cast<float*>(args.out) + r * width);
    } else {
      RmsNormRow(args, args.hidden + source, delta, static_cast<std::uint16_t*>(args.out) + r * width);
    }
  }
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(RmsNormRows);
}  // namespace

void RmsNormCpu(Device& device, const RmsNormArgs& args) {
  ROOST_CHECK(args.delta_dtype == DType::kF32);
  ParallelRows(CpuDevice::Of(device), args.rows, args.width, [&](std::uint32_t begin, std::uint32_t end) {
    HWY_DYNAMIC_DISPATCH(RmsNormRows)(args, begin, end);
  });
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

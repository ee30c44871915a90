#include <cmath>

#include "common/base/check.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

// One head: norm if there is a weight, rotate, store.
template <typename Out>
HWY_INLINE void NormRotate(const float* head, const float* weight, float epsilon, std::size_t half, const float* cos,
                           const float* sin, Out* out) {
  float scale = 1;
  if (weight != nullptr) {
    const float mean = SumOfSquares(head, 2 * half) / static_cast<float>(2 * half);
    scale = 1 / std::sqrt(mean + epsilon);
  }
  ForLanes(half, [&](auto d, std::size_t i) HWY_ATTR {
    auto a = hn::LoadU(d, head + i);
    auto b = hn::LoadU(d, head + half + i);
    if (weight != nullptr) {
      const auto factor = hn::Set(d, scale);
      a = hn::Mul(hn::Mul(a, factor), hn::LoadU(d, weight + i));
      b = hn::Mul(hn::Mul(b, factor), hn::LoadU(d, weight + half + i));
    }
    const auto c = hn::LoadU(d, cos + i);
    const auto s = hn::LoadU(d, sin + i);
    StoreNarrow(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, out + i);
    StoreNarrow(hn::MulAdd(a, s, hn::Mul(b, c)), d, out + half + i);
  });
}

template <typename Kv>
HWY_INLINE void RopeRow(const RopeToCacheArgs& args, std::size_t r) {
  const KvLayout& kv = args.kv;
  const std::size_t head_dim = kv.head_dim;
  const std::size_t half = head_dim / 2;
  const float* cos = args.cos + r * half;
  const float* sin = args.sin + r * half;
  const float* head =
      static_cast<const float*>(args.qkv) + r * (args.query_head_count + 2 * kv.kv_head_count) * head_dim;
  float* q = static_cast<float*>(args.q) + r * args.query_head_count * head_dim;
  for (std::uint32_t h = 0; h < args.query_head_count; ++h, head += head_dim, q += head_dim) {
    NormRotate(head, args.q_norm, args.epsilon, half, cos, sin, q);
  }
  const std::uint32_t block = args.slots[r] / kv.block_tokens;
  Kv* row = static_cast<Kv*>(kv.base) + (args.slots[r] % kv.block_tokens) * head_dim;
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, head += head_dim) {
    NormRotate(head, args.k_norm, args.epsilon, half, cos, sin, row + kv.KOffset(block, args.layer, h));
  }
  for (std::uint32_t h = 0; h < kv.kv_head_count; ++h, head += head_dim) {
    Kv* v = row + kv.VOffset(block, args.layer, h);
    ForLanes(head_dim, [&](auto d, std::size_t i) HWY_ATTR { StoreNarrow(hn::LoadU(d, head + i), d, v + i); });
  }
}

void RopeRows(const RopeToCacheArgs& args, std::uint32_t begin, std::uint32_t end) {
  for (std::size_t r = begin; r < end; ++r) {
    if (args.kv.dtype == DType::kF32) {
      RopeRow<float>(args, r);
    } else {
      RopeRow<std::uint16_t>(args, r);
    }
  }
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(RopeRows);
}  // namespace

void RopeAnglesCpu(Device& device, const RopeAnglesArgs& args) {
  ParallelRows(CpuDevice::Of(device), args.rows, args.half_dim, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      for (std::size_t i = 0; i < args.half_dim; ++i) {
        const float angle = static_cast<float>(args.positions[r]) * args.inverse_frequencies[i];
        args.cos[r * args.half_dim + i] = std::cos(angle);
        args.sin[r * args.half_dim + i] = std::sin(angle);
      }
    }
  });
}

void RopeToCacheCpu(Device& device, const RopeToCacheArgs& args) {
  ROOST_CHECK(args.activation_dtype == DType::kF32);
  const std::uint32_t width = (args.query_head_count + 2 * args.kv.kv_head_count) * args.kv.head_dim;
  ParallelRows(CpuDevice::Of(device), args.rows, width, [&](std::uint32_t begin, std::uint32_t end) {
    HWY_DYNAMIC_DISPATCH(RopeRows)(args, begin, end);
  });
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

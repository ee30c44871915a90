// Helpers that the vector ops share: loads that widen to f32, stores that round to the output's dtype, and loops over a
// row. Included once per target that Highway compiles for, so the guard follows Highway's pattern.
#if defined(ROOST_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROOST_KERNELS_SIMD_INL_H_
#undef ROOST_KERNELS_SIMD_INL_H_
#else
#define ROOST_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// f32 is stored as float, bf16 as uint16_t.
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const std::uint16_t* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

template <class D>
HWY_INLINE void StoreNarrow(hn::Vec<D> value, D d, float* to) {
  hn::StoreU(value, d, to);
}

// Rounds like FloatToBF16.
template <class D>
HWY_INLINE void StoreNarrow(hn::Vec<D> value, D /*d*/, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1U));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffU)));
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000U));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded))), d16, to);
}

// Calls body(tag, index) for 0 … count-1, a full vector at a time, then one by one. Elements must be independent.
template <class Body>
HWY_INLINE void ForLanes(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) body(one, i);
}

// Σ values[i]², in an order that depends only on `count`.
HWY_INLINE float SumOfSquares(const float* values, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sums = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    sums = hn::MulAdd(value, value, sums);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) total += values[i] * values[i];
  return total;
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROOST_KERNELS_SIMD_INL_H_

#include "kernels/cpu/sample_weights_cpu.h"

#include <algorithm>
#include <array>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sample_weights_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

using Candidate = SampleScratch::Candidate;
using FloatTag = hn::ScalableTag<float>;

// Buckets per factor e between weights. The last bucket also holds everything beyond.
constexpr float kBucketsPerE = 64;
// With a temperature near 0, the best logit's distance, 0, would be multiplied by infinity.
constexpr float kMaxBucketsPerLogit = 1e30F;

constexpr float kWeightUnits = 0x1p44F;

// Converts through a signed number, which is one instruction. It fits, because a weight is at most 1.
HWY_INLINE std::uint64_t UnitsOf(float weight) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(weight * kWeightUnits));
}

// Weights in multiples of 2^-44. A weight above 2^-21 has no smaller digits; adding and subtracting 2^-21 rounds the
// others.
template <class D>
HWY_INLINE hn::Vec<D> WeightOf(D d, hn::Vec<D> logit, const WeightedRow& row) {
  const auto distance = hn::Div(hn::Sub(logit, hn::Set(d, row.best)), hn::Set(d, row.draw.temperature));
  // Below -80 the weight is 0, and infinity must not enter the computation.
  const auto weight = hn::Exp(d, hn::Max(distance, hn::Set(d, -80.0F)));
  const auto magic = hn::Set(d, 0x1p-21F);
  const auto rounded = hn::IfThenElse(hn::Lt(weight, magic), hn::Sub(hn::Add(weight, magic), magic), weight);
  return hn::IfThenZeroElse(hn::Lt(weight, hn::Set(d, row.draw.min_p)), rounded);
}

// Monotonic: a lower logit never has a lower bucket.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> BucketOf(D d, hn::Vec<D> logit, float best, float scale) {
  const auto place = hn::Mul(hn::Sub(hn::Set(d, best), logit), hn::Set(d, scale));
  return hn::ConvertTo(hn::RebindToSigned<D>(), hn::Min(place, hn::Set(d, static_cast<float>(kBucketCount - 1))));
}

HWY_INLINE float BucketScaleOf(const WeightedRow& row) {
  return std::min(kBucketsPerE / row.draw.temperature, kMaxBucketsPerLogit);
}

RowExtremes Extremes(std::span<const float> logits) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  auto best = hn::Set(d, kLeast);
  auto numbers = hn::Zero(d);  // NaN in lanes that had one
  std::size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes) {
    const auto logit = hn::LoadU(d, logits.data() + i);
    best = hn::IfThenElse(hn::Gt(logit, best), logit, best);
    numbers = hn::IfThenElse(hn::IsNaN(logit), logit, numbers);
  }
  RowExtremes extremes{.best = hn::GetLane(hn::MaxOfLanes(d, best)), .has_nan = !hn::AllFalse(d, hn::IsNaN(numbers))};
  for (; i < logits.size(); ++i) {
    extremes.best = std::max(extremes.best, logits[i]);
    extremes.has_nan = extremes.has_nan || logits[i] != logits[i];
  }
  return extremes;
}

TokenId First(std::span<const float> logits, float logit) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, logit);
  std::size_t i = 0;
  while (i + lanes <= logits.size() && hn::AllFalse(d, hn::Eq(hn::LoadU(d, logits.data() + i), wanted))) i += lanes;
  while (logits[i] != logit) ++i;
  return static_cast<TokenId>(i);
}

// For at most kTileTokens logits.
HWY_INLINE void WeightsOf(const WeightedRow& row, std::span<const float> logits, float* weights) {
  ForLanes(logits.size(), [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(WeightOf(d, hn::LoadU(d, logits.data() + i), row), d, weights + i);
  });
}

HWY_INLINE std::span<const float> TileOf(const WeightedRow& row, std::size_t tile) {
  const std::size_t begin = tile * kTileTokens;
  return row.logits.subspan(begin, std::min(kTileTokens, row.logits.size() - begin));
}

void Sums(const WeightedRow& row, std::span<std::uint64_t> sums) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  std::array<float, kTileTokens> weights;
  for (std::size_t tile = 0; tile < sums.size(); ++tile) {
    const auto logits = TileOf(row, tile);
    weights.fill(0);
    WeightsOf(row, logits, weights.data());
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    for (std::size_t i = 0; i < kTileTokens; i += 2 * lanes) {
      even = hn::Add(even, hn::PromoteTo(d, hn::LoadU(half, weights.data() + i)));
      odd = hn::Add(odd, hn::PromoteTo(d, hn::LoadU(half, weights.data() + i + lanes)));
    }
    const double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
    sums[tile] = static_cast<std::uint64_t>(sum * static_cast<double>(kWeightUnits));
  }
}

TokenId FindWithin(const WeightedRow& row, std::size_t tile, std::uint64_t target) {
  std::array<float, kTileTokens> weights;
  WeightsOf(row, TileOf(row, tile), weights.data());
  std::size_t i = 0;
  for (std::uint64_t left = target; UnitsOf(weights[i]) <= left; ++i) left -= UnitsOf(weights[i]);
  return static_cast<TokenId>(tile * kTileTokens + i);
}

void Fill(const WeightedRow& row, std::span<SampleScratch::Bucket> buckets) {
  const float scale = BucketScaleOf(row);
  std::array<float, kTileTokens> weights;
  std::array<std::int32_t, kTileTokens> places;
  for (std::size_t tile = 0; tile * kTileTokens < row.logits.size(); ++tile) {
    const auto logits = TileOf(row, tile);
    WeightsOf(row, logits, weights.data());
    ForLanes(logits.size(), [&](auto d, std::size_t i) HWY_ATTR {
      const hn::RebindToSigned<decltype(d)> places_tag;
      hn::StoreU(BucketOf(d, hn::LoadU(d, logits.data() + i), row.best, scale), places_tag, places.data() + i);
    });
    for (std::size_t i = 0; i < logits.size(); ++i) {
      SampleScratch::Bucket& bucket = buckets[static_cast<std::uint32_t>(places[i])];
      bucket.weight += UnitsOf(weights[i]);
      ++bucket.count;
    }
  }
}

void Collect(const WeightedRow& row, std::uint32_t bucket, std::vector<Candidate>& candidates) {
  const float scale = BucketScaleOf(row);
  ForLanes(row.logits.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> places_tag;
    const auto logit = hn::LoadU(d, row.logits.data() + i);
    const auto is_here =
        hn::Eq(BucketOf(d, logit, row.best, scale), hn::Set(places_tag, static_cast<std::int32_t>(bucket)));
    if (hn::AllFalse(places_tag, is_here)) return;
    HWY_ALIGN std::array<float, hn::MaxLanes(FloatTag())> weights;
    HWY_ALIGN std::array<std::int32_t, hn::MaxLanes(FloatTag())> here;
    hn::StoreU(WeightOf(d, logit, row), d, weights.data());
    hn::StoreU(hn::VecFromMask(places_tag, is_here), places_tag, here.data());
    for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
      if (here[lane] == 0) continue;
      candidates.push_back({row.logits[i + lane], static_cast<TokenId>(i + lane), UnitsOf(weights[lane])});
    }
  });
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(Extremes);
HWY_EXPORT(First);
HWY_EXPORT(Sums);
HWY_EXPORT(FindWithin);
HWY_EXPORT(Fill);
HWY_EXPORT(Collect);
}  // namespace

RowExtremes FindExtremes(std::span<const float> logits) { return HWY_DYNAMIC_DISPATCH(Extremes)(logits); }
TokenId FindFirst(std::span<const float> logits, float logit) { return HWY_DYNAMIC_DISPATCH(First)(logits, logit); }
void SumTiles(const WeightedRow& row, std::span<std::uint64_t> sums) { HWY_DYNAMIC_DISPATCH(Sums)(row, sums); }
TokenId FindInTile(const WeightedRow& row, std::size_t tile, std::uint64_t target) {
  return HWY_DYNAMIC_DISPATCH(FindWithin)(row, tile, target);
}
void FillBuckets(const WeightedRow& row, std::span<SampleScratch::Bucket> buckets) {
  HWY_DYNAMIC_DISPATCH(Fill)(row, buckets);
}
void CollectBucket(const WeightedRow& row, std::uint32_t bucket, std::vector<SampleScratch::Candidate>& candidates) {
  HWY_DYNAMIC_DISPATCH(Collect)(row, bucket, candidates);
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

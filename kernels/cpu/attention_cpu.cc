// Computes an item for one kv head or some of its query heads: a pack. Its lanes are its (row, query head) pairs,
// padded to 4, 8 or 16. Span by span:
//
//   scores[j][lane] = Σ_d k[j][d] · q[d][lane]     q transposed, so that a k element is broadcast to all lanes
//   p = exp(scores - max), sum                     lane by lane, over j in order
//   span[lane][d] = Σ_j p[j][lane] · v[j][d]       a p element is broadcast to all d
//   total ← fold(total, span)
//
// Each lane sums only over its own d or j, in order, so another packing of the lanes changes no bit. If a row does not
// see position j, its score is -inf; then p is +0, which changes no sum.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "kernels/attention.h"
#include "kernels/cpu/cpu_parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd-inl.h"

#ifndef ROOST_KERNELS_ATTENTION_CPU_ONCE
#define ROOST_KERNELS_ATTENTION_CPU_ONCE
namespace roost::kernels {
namespace {

constexpr std::uint32_t kMaxPackLanes = 16;

struct Pack {
  const AttentionItem* item;
  std::uint32_t kv_head;
  std::uint32_t first_query_head;  // all of kv_head's group
  std::uint32_t query_head_count;

  [[nodiscard]] std::uint32_t lane_count() const { return item->row_count * query_head_count; }
  [[nodiscard]] std::uint32_t RowOf(std::uint32_t lane) const { return item->first_row + lane / query_head_count; }
  [[nodiscard]] std::uint32_t HeadOf(std::uint32_t lane) const { return first_query_head + lane % query_head_count; }
};

// Rows of K that are scored together: enough independent sums to hide the latency of a multiply-add.
constexpr std::uint32_t kKeyTile = 8;
// With few lanes, keys fill the vectors instead.
constexpr std::uint32_t kFewLanes = 4;
constexpr std::uint32_t kFewLanesKeyTile = 32;
static_assert(kAttentionSpan % kFewLanesKeyTile == 0 && kFewLanesKeyTile % kKeyTile == 0);

// Working memory of one pack; see AttentionScratchFloats.
struct PackScratch {
  float* q;       // [head_dim][lanes], scaled
  float* scores;  // [kAttentionSpan][lanes]; becomes p
  float* keys;    // [kKeyTile][head_dim], widened
  float* spans;   // [lanes] partials of the span
  float* totals;  // [lanes] partials folded so far
};

std::size_t AttentionScratchFloats(std::size_t head_dim) {
  return kMaxPackLanes * (head_dim + kAttentionSpan + 2 * PartialFloats(static_cast<std::uint32_t>(head_dim))) +
         kKeyTile * head_dim;
}

PackScratch Carve(float* memory, std::size_t head_dim) {
  PackScratch scratch{};
  scratch.q = memory;
  scratch.scores = scratch.q + kMaxPackLanes * head_dim;
  scratch.keys = scratch.scores + std::size_t{kMaxPackLanes} * kAttentionSpan;
  scratch.spans = scratch.keys + kKeyTile * head_dim;
  scratch.totals = scratch.spans + kMaxPackLanes * PartialFloats(static_cast<std::uint32_t>(head_dim));
  return scratch;
}

}  // namespace
}  // namespace roost::kernels
#endif  // ROOST_KERNELS_ATTENTION_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

constexpr std::uint32_t RoundUpToTile(std::uint32_t keys) {
  return (keys + kFewLanesKeyTile - 1) / kFewLanesKeyTile * kFewLanesKeyTile;
}

// The positions of one span: where their K rows are, and how many of them each lane sees.
template <typename Kv>
struct Span {
  const Kv* k[kAttentionSpan + kFewLanesKeyTile];  // the last one is repeated to fill the last tile, and one more
  std::size_t v_offset;                            // from a K row to the V row of the same position
  std::uint32_t count;
  std::uint32_t visible[kMaxPackLanes];
};

template <typename Kv>
void LocateSpan(const AttentionArgs& args, const Pack& pack, std::uint32_t first, Span<Kv>& span) {
  const KvLayout& kv = args.kv;
  const AttentionItem& item = *pack.item;
  span.count = std::min(kAttentionSpan, item.first_position + item.position_count - first);
  span.v_offset = kv.HeadElements() * kv.kv_head_count;
  const std::uint32_t in_item = first - item.first_position;
  std::uint32_t j = 0;
  while (j < span.count) {
    const std::uint32_t block = args.blocks[item.first_block + (in_item + j) / kv.block_tokens];
    const std::uint32_t in_block = (in_item + j) % kv.block_tokens;
    const Kv* key = static_cast<const Kv*>(kv.base) + kv.KOffset(block, args.layer, pack.kv_head) +
                    std::size_t{in_block} * kv.head_dim;
    const std::uint32_t end = std::min(span.count, j + kv.block_tokens - in_block);
    for (; j < end; ++j, key += kv.head_dim) span.k[j] = key;
  }
  std::fill(span.k + j, span.k + RoundUpToTile(j) + kFewLanesKeyTile, span.k[j - 1]);
  for (std::uint32_t lane = 0; lane < pack.lane_count(); ++lane) {
    const std::uint32_t end = args.rows[pack.RowOf(lane)].position + 1;
    span.visible[lane] = end <= first ? 0 : std::min(span.count, end - first);
  }
}

// scores[0 … 7][lanes] of the keys k[0 … 7][head_dim].
template <class D>
HWY_INLINE void ScoreKeyTile(D d, std::size_t head_dim, std::size_t lanes, const float* q, const float* const* k,
                             float* scores) {
  for (std::size_t lane = 0; lane < lanes; lane += hn::Lanes(d)) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (std::size_t i = 0; i < head_dim; ++i) {
      const auto qi = hn::LoadU(d, q + i * lanes + lane);
      s0 = hn::MulAdd(hn::Set(d, k[0][i]), qi, s0);
      s1 = hn::MulAdd(hn::Set(d, k[1][i]), qi, s1);
      s2 = hn::MulAdd(hn::Set(d, k[2][i]), qi, s2);
      s3 = hn::MulAdd(hn::Set(d, k[3][i]), qi, s3);
      s4 = hn::MulAdd(hn::Set(d, k[4][i]), qi, s4);
      s5 = hn::MulAdd(hn::Set(d, k[5][i]), qi, s5);
      s6 = hn::MulAdd(hn::Set(d, k[6][i]), qi, s6);
      s7 = hn::MulAdd(hn::Set(d, k[7][i]), qi, s7);
    }
    float* to = scores + lane;
    hn::StoreU(s0, d, to);
    hn::StoreU(s1, d, to + lanes);
    hn::StoreU(s2, d, to + 2 * lanes);
    hn::StoreU(s3, d, to + 3 * lanes);
    hn::StoreU(s4, d, to + 4 * lanes);
    hn::StoreU(s5, d, to + 5 * lanes);
    hn::StoreU(s6, d, to + 6 * lanes);
    hn::StoreU(s7, d, to + 7 * lanes);
  }
}

#if HWY_TARGET == HWY_SCALAR

template <typename Kv>
HWY_INLINE bool ScoreSpanOfFewLanes(const Span<Kv>& /*span*/, std::size_t /*head_dim*/, std::uint32_t /*lanes_used*/,
                                    const PackScratch& /*scratch*/) {
  return false;
}

#else

// blocks[b] = rows[4·b][first … first + 15 bytes]
template <class D32, typename Kv>
HWY_INLINE hn::Vec<D32> LoadBlocks(D32 d32, const Kv* const* rows, std::size_t first) {
  if constexpr (hn::MaxLanes(D32()) <= 4) {
    return hn::BitCast(d32, hn::LoadU(hn::Repartition<Kv, D32>(), rows[0] + first));
  } else {
    const hn::Half<D32> half;
    return hn::Combine(d32, LoadBlocks(half, rows + hn::Lanes(half), first), LoadBlocks(half, rows, first));
  }
}

// words[w][row] = word w of rows[row][first … first + 15 bytes], for as many rows as d32 has lanes
template <class D32, typename Kv>
HWY_INLINE void LoadWordColumns(D32 d32, const Kv* const* rows, std::size_t first, hn::Vec<D32> (&words)[4]) {
  const hn::RepartitionToWide<D32> d64;
  const auto a = LoadBlocks(d32, rows, first);
  const auto b = LoadBlocks(d32, rows + 1, first);
  const auto c = LoadBlocks(d32, rows + 2, first);
  const auto d = LoadBlocks(d32, rows + 3, first);
  const auto lower_ab = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
  const auto upper_ab = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
  const auto lower_cd = hn::BitCast(d64, hn::InterleaveLower(d32, c, d));
  const auto upper_cd = hn::BitCast(d64, hn::InterleaveUpper(d32, c, d));
  words[0] = hn::BitCast(d32, hn::InterleaveLower(d64, lower_ab, lower_cd));
  words[1] = hn::BitCast(d32, hn::InterleaveUpper(d64, lower_ab, lower_cd));
  words[2] = hn::BitCast(d32, hn::InterleaveLower(d64, upper_ab, upper_cd));
  words[3] = hn::BitCast(d32, hn::InterleaveUpper(d64, upper_ab, upper_cd));
}

// columns[i][row] = rows[row][first + i], widened
template <class D>
HWY_INLINE void LoadColumns(D d, const float* const* rows, std::size_t first, hn::Vec<D> (&columns)[4]) {
  const hn::RebindToUnsigned<D> d32;
  hn::Vec<decltype(d32)> words[4];
  LoadWordColumns(d32, rows, first, words);
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) columns[w] = hn::BitCast(d, words[w]);
}

template <class D>
HWY_INLINE void LoadColumns(D d, const std::uint16_t* const* rows, std::size_t first, hn::Vec<D> (&columns)[8]) {
  const hn::RebindToUnsigned<D> d32;
  hn::Vec<decltype(d32)> words[4];
  LoadWordColumns(d32, rows, first, words);
  HWY_UNROLL(4)
  for (int w = 0; w < 4; ++w) {
    columns[2 * w] = hn::BitCast(d, hn::ShiftLeft<16>(words[w]));
    columns[2 * w + 1] = hn::BitCast(d, hn::And(words[w], hn::Set(d32, 0xffff0000U)));
  }
}

constexpr std::size_t kLineBytes = 64;

template <typename Kv>
constexpr std::size_t kKeyColumns = 16 / sizeof(Kv);

// scores[0 … 2·lanes of a vector - 1][kFewLanes] of these keys; lanes from kUsed on become 0. Prefetches as many keys
// behind them.
template <int kUsed, typename Kv>
HWY_INLINE void ScoreKeysOfFewLanes(std::size_t head_dim, const float* q, const Kv* const* k, float* scores) {
  const hn::CappedTag<float, 16> d;
  const std::size_t n = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[2][kFewLanes];
  HWY_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    HWY_UNROLL(4)
    for (std::uint32_t lane = 0; lane < kFewLanes; ++lane) sums[half][lane] = hn::Zero(d);
  }
  for (std::size_t i = 0; i < head_dim; i += kKeyColumns<Kv>) {
    if (i * sizeof(Kv) % kLineBytes == 0) {
      for (std::size_t row = 2 * n; row < 4 * n; ++row) hwy::Prefetch(k[row] + i);
    }
    HWY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      hn::Vec<decltype(d)> columns[kKeyColumns<Kv>];
      LoadColumns(d, k + static_cast<std::size_t>(half) * n, i, columns);
      HWY_UNROLL(8)
      for (std::size_t c = 0; c < kKeyColumns<Kv>; ++c) {
        HWY_UNROLL(4)
        for (int lane = 0; lane < kUsed; ++lane) {
          const auto qi = hn::Set(d, q[(i + c) * kFewLanes + static_cast<std::size_t>(lane)]);
          sums[half][lane] = hn::MulAdd(columns[c], qi, sums[half][lane]);
        }
      }
    }
  }
  HWY_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    hn::StoreInterleaved4(sums[half][0], sums[half][1], sums[half][2], sums[half][3], d,
                          scores + static_cast<std::size_t>(half) * n * kFewLanes);
  }
}

// False where head_dim does not suit it.
template <typename Kv>
HWY_INLINE bool ScoreSpanOfFewLanes(const Span<Kv>& span, std::size_t head_dim, std::uint32_t lanes_used,
                                    const PackScratch& scratch) {
  if (head_dim % kKeyColumns<Kv> != 0) return false;
  const hn::CappedTag<float, 16> d;
  const auto tile = static_cast<std::uint32_t>(2 * hn::Lanes(d));
  for (std::uint32_t j = 0; j < span.count; j += tile) {
    float* const scores = scratch.scores + std::size_t{j} * kFewLanes;
    if (lanes_used <= 2) {
      ScoreKeysOfFewLanes<2>(head_dim, scratch.q, span.k + j, scores);
    } else {
      ScoreKeysOfFewLanes<kFewLanes>(head_dim, scratch.q, span.k + j, scores);
    }
  }
  return true;
}

#endif

HWY_INLINE const float* WidenKey(const float* row, std::size_t /*head_dim*/, float* /*to*/) { return row; }

HWY_INLINE const float* WidenKey(const std::uint16_t* row, std::size_t head_dim, float* to) {
  ForLanes(head_dim, [&](auto d, std::size_t i) HWY_ATTR { hn::StoreU(LoadWide(d, row + i), d, to + i); });
  return to;
}

template <class D, typename Kv>
HWY_INLINE void ScoreSpan(D d, const Span<Kv>& span, std::size_t head_dim, std::size_t lanes, std::uint32_t lanes_used,
                          const PackScratch& scratch) {
  if (lanes != kFewLanes || !ScoreSpanOfFewLanes(span, head_dim, lanes_used, scratch)) {
    for (std::uint32_t j = 0; j < span.count; j += kKeyTile) {
      const float* keys[kKeyTile];
      for (std::uint32_t t = 0; t < kKeyTile; ++t) {
        keys[t] = WidenKey(span.k[j + t], head_dim, scratch.keys + t * head_dim);
      }
      ScoreKeyTile(d, head_dim, lanes, scratch.q, keys, scratch.scores + j * lanes);
    }
  }
  for (std::uint32_t lane = 0; lane < lanes_used; ++lane) {
    for (std::uint32_t j = span.visible[lane]; j < span.count; ++j) {
      scratch.scores[j * lanes + lane] = -std::numeric_limits<float>::infinity();
    }
  }
}

// scores[i] = exp(scores[i] - max_of[i mod lanes]), and the same of a vector's rest behind `count`. Several keys fill a
// vector.
HWY_INLINE void ExpSpan(std::size_t count, std::size_t lanes, float* max_of, float* scores) {
  const hn::CappedTag<float, kMaxPackLanes> d;
  const std::size_t n = hn::Lanes(d);
  for (std::size_t i = lanes; i < n; ++i) max_of[i] = max_of[i - lanes];
  for (std::size_t first = 0; first < lanes; first += n) {
    const auto max = hn::LoadU(d, max_of + first);
    for (std::size_t i = first; i < count; i += std::max(lanes, n)) {
      hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, scores + i), max)), d, scores + i);
    }
  }
}

// Turns scores into p; writes each lane's largest score and its sum into the span's partials.
template <class D>
HWY_INLINE void SoftmaxSpan(D d, std::uint32_t count, std::size_t lanes, std::uint32_t partial_floats,
                            const PackScratch& scratch) {
  HWY_ALIGN float max_of[kMaxPackLanes];
  HWY_ALIGN float sum_of[kMaxPackLanes];
  for (std::size_t lane = 0; lane < lanes; lane += hn::Lanes(d)) {
    // Starts finite: if a lane sees nothing, every p is exp(-inf) = 0.
    auto max = hn::Set(d, std::numeric_limits<float>::lowest());
    for (std::uint32_t j = 0; j < count; ++j) max = hn::Max(max, hn::LoadU(d, scratch.scores + j * lanes + lane));
    hn::StoreU(max, d, max_of + lane);
  }
  ExpSpan(count * lanes, lanes, max_of, scratch.scores);
  for (std::size_t lane = 0; lane < lanes; lane += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (std::uint32_t j = 0; j < count; ++j) sum = hn::Add(sum, hn::LoadU(d, scratch.scores + j * lanes + lane));
    hn::StoreU(sum, d, sum_of + lane);
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    scratch.spans[lane * partial_floats] = max_of[lane];
    scratch.spans[lane * partial_floats + 1] = sum_of[lane];
  }
}

// Σ_j p[j][lane] · v[j][i … i + kVectors·N) for kLanes neighbouring lanes.
template <int kLanes, int kVectors, class D, typename Kv>
HWY_INLINE void WeightValues(D d, const Span<Kv>& span, std::uint32_t count, std::size_t lanes, const float* p,
                             std::size_t i, std::uint32_t partial_floats, float* partials) {
  const std::size_t n = hn::Lanes(d);
  hn::Vec<D> sums[kLanes][kVectors];
  HWY_UNROLL(4)
  for (int lane = 0; lane < kLanes; ++lane) {
    HWY_UNROLL(4)
    for (int vector = 0; vector < kVectors; ++vector) sums[lane][vector] = hn::Zero(d);
  }
  for (std::uint32_t j = 0; j < count; ++j) {
    const Kv* v = span.k[j] + span.v_offset + i;
    hn::Vec<D> values[kVectors];
    HWY_UNROLL(4)
    for (int vector = 0; vector < kVectors; ++vector) {
      values[vector] = LoadWide(d, v + static_cast<std::size_t>(vector) * n);
    }
    HWY_UNROLL(4)
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto weight = hn::Set(d, p[j * lanes + static_cast<std::size_t>(lane)]);
      HWY_UNROLL(4)
      for (int vector = 0; vector < kVectors; ++vector) {
        sums[lane][vector] = hn::MulAdd(weight, values[vector], sums[lane][vector]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int lane = 0; lane < kLanes; ++lane) {
    float* to = partials + static_cast<std::size_t>(lane) * partial_floats + 2 + i;
    HWY_UNROLL(4)
    for (int vector = 0; vector < kVectors; ++vector) {
      hn::StoreU(sums[lane][vector], d, to + static_cast<std::size_t>(vector) * n);
    }
  }
}

template <int kLanes, typename Kv>
HWY_INLINE void WeightValuesOfLanes(const Span<Kv>& span, std::uint32_t lane, std::size_t lanes, std::size_t head_dim,
                                    const PackScratch& scratch) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const std::uint32_t floats = PartialFloats(static_cast<std::uint32_t>(head_dim));
  const float* p = scratch.scores + lane;
  float* partials = scratch.spans + lane * floats;
  const std::uint32_t count = *std::max_element(span.visible + lane, span.visible + lane + kLanes);
  const std::size_t n = hn::Lanes(d);
  constexpr int kVectors = kLanes <= 2 ? 4 : 2;  // enough independent sums to hide the latency of a multiply-add
  std::size_t i = 0;
  for (; i + kVectors * n <= head_dim; i += kVectors * n) {
    WeightValues<kLanes, kVectors>(d, span, count, lanes, p, i, floats, partials);
  }
  for (; i + n <= head_dim; i += n) WeightValues<kLanes, 1>(d, span, count, lanes, p, i, floats, partials);
  for (; i < head_dim; ++i) WeightValues<kLanes, 1>(one, span, count, lanes, p, i, floats, partials);
}

// Combines `span` into `total`. Whole items and merges share this one copy, so that they agree bit for bit.
HWY_NOINLINE void Fold(const float* span, std::size_t head_dim, float* total) {
  const float max = std::max(total[0], span[0]);
  const float old_scale = std::exp(total[0] - max);
  const float new_scale = std::exp(span[0] - max);
  total[0] = max;
  total[1] = total[1] * old_scale + span[1] * new_scale;
  ForLanes(head_dim, [&](auto d, std::size_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::LoadU(d, total + 2 + i), hn::Set(d, old_scale));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, span + 2 + i), hn::Set(d, new_scale), kept), d, total + 2 + i);
  });
}

HWY_INLINE void ClearPartial(std::size_t head_dim, float* partial) {
  partial[0] = std::numeric_limits<float>::lowest();
  std::fill_n(partial + 1, 1 + head_dim, 0.0F);
}

HWY_INLINE void WriteOut(const AttentionArgs& args, std::uint32_t token, std::uint32_t head, const float* total) {
  const std::size_t head_dim = args.kv.head_dim;
  const std::size_t first = (std::size_t{token} * args.query_head_count + head) * head_dim;
  ForLanes(head_dim, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::Div(hn::LoadU(d, total + 2 + i), hn::Set(d, total[1]));
    if (args.out_dtype == DType::kF32) {
      StoreNarrow(value, d, static_cast<float*>(args.out) + first + i);
    } else {
      StoreNarrow(value, d, static_cast<std::uint16_t*>(args.out) + first + i);
    }
  });
}

// Writes q of the pack's lanes, transposed and scaled; unused lanes are zero.
HWY_INLINE void PackQueries(const AttentionArgs& args, const Pack& pack, std::size_t lanes, float* q) {
  const std::size_t head_dim = args.kv.head_dim;
  std::fill_n(q, head_dim * lanes, 0.0F);
  for (std::uint32_t lane = 0; lane < pack.lane_count(); ++lane) {
    const std::uint32_t token = args.rows[pack.RowOf(lane)].token;
    const float* from =
        static_cast<const float*>(args.q) + (std::size_t{token} * args.query_head_count + pack.HeadOf(lane)) * head_dim;
    for (std::size_t i = 0; i < head_dim; ++i) q[i * lanes + lane] = from[i] * args.scale;
  }
}

template <class D, typename Kv>
HWY_INLINE void RunSpan(D d, const AttentionArgs& args, const Pack& pack, std::uint32_t first, std::size_t lanes,
                        const PackScratch& scratch) {
  const std::size_t head_dim = args.kv.head_dim;
  const std::uint32_t floats = PartialFloats(args.kv.head_dim);
  const std::uint32_t lanes_used = pack.lane_count();
  Span<Kv> span;
  LocateSpan(args, pack, first, span);
  ScoreSpan(d, span, head_dim, lanes, lanes_used, scratch);
  SoftmaxSpan(d, span.count, lanes, floats, scratch);
  std::uint32_t lane = 0;
  for (; lane + 4 <= lanes_used; lane += 4) WeightValuesOfLanes<4>(span, lane, lanes, head_dim, scratch);
  for (; lane + 2 <= lanes_used; lane += 2) WeightValuesOfLanes<2>(span, lane, lanes, head_dim, scratch);
  for (; lane < lanes_used; ++lane) WeightValuesOfLanes<1>(span, lane, lanes, head_dim, scratch);
  for (lane = 0; lane < lanes_used; ++lane) {
    if (span.visible[lane] > 0) Fold(scratch.spans + lane * floats, head_dim, scratch.totals + lane * floats);
  }
}

HWY_INLINE void WritePack(const AttentionArgs& args, const Pack& pack, const float* totals) {
  const AttentionItem& item = *pack.item;
  const std::uint32_t floats = PartialFloats(args.kv.head_dim);
  for (std::uint32_t lane = 0; lane < pack.lane_count(); ++lane) {
    const float* total = totals + lane * floats;
    const std::uint32_t row = pack.RowOf(lane);
    if (item.output == AttentionItem::Output::kWhole) {
      WriteOut(args, args.rows[row].token, pack.HeadOf(lane), total);
      continue;
    }
    const std::size_t partial =
        item.first_partial + std::size_t{row - item.first_row} * args.query_head_count + pack.HeadOf(lane);
    std::copy_n(total, floats, args.partials + partial * floats);
  }
}

template <class D, typename Kv>
HWY_INLINE void RunPack(D d, const AttentionArgs& args, const Pack& pack, std::size_t lanes, float* memory) {
  const std::uint32_t head_dim = args.kv.head_dim;
  const std::uint32_t floats = PartialFloats(head_dim);
  const PackScratch scratch = Carve(memory, head_dim);
  PackQueries(args, pack, lanes, scratch.q);
  for (std::uint32_t lane = 0; lane < pack.lane_count(); ++lane) ClearPartial(head_dim, scratch.totals + lane * floats);
  const std::uint32_t end = pack.item->first_position + pack.item->position_count;
  for (std::uint32_t first = pack.item->first_position; first < end; first += kAttentionSpan) {
    RunSpan<D, Kv>(d, args, pack, first, lanes, scratch);
  }
  WritePack(args, pack, scratch.totals);
}

template <typename Kv>
HWY_INLINE void RunPackOfDType(const AttentionArgs& args, const Pack& pack, float* memory) {
  if (pack.lane_count() <= 4) {
    RunPack<hn::CappedTag<float, 4>, Kv>({}, args, pack, 4, memory);
  } else if (pack.lane_count() <= 8) {
    RunPack<hn::CappedTag<float, 8>, Kv>({}, args, pack, 8, memory);
  } else {
    RunPack<hn::CappedTag<float, 16>, Kv>({}, args, pack, 16, memory);
  }
}

void RunAttentionPack(const AttentionArgs& args, const Pack& pack, float* memory) {
  if (args.kv.dtype == DType::kF32) {
    RunPackOfDType<float>(args, pack, memory);
  } else {
    RunPackOfDType<std::uint16_t>(args, pack, memory);
  }
}

void RunAttentionMerge(const AttentionArgs& args, const AttentionMerge& merge, std::uint32_t head, float* total) {
  const std::uint32_t floats = PartialFloats(args.kv.head_dim);
  ClearPartial(args.kv.head_dim, total);
  for (std::uint32_t i = 0; i < merge.part_count; ++i) {
    const float* partial = args.partials + (std::size_t{args.parts[merge.first_part + i]} + head) * floats;
    if (partial[1] > 0) Fold(partial, args.kv.head_dim, total);
  }
  WriteOut(args, merge.token, head, total);
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(RunAttentionPack);
HWY_EXPORT(RunAttentionMerge);

Cost CostOf(const AttentionArgs& args) {
  std::uint64_t pairs = 0;
  for (std::uint32_t i = 0; i < args.item_count; ++i) {
    pairs += std::uint64_t{args.items[i].row_count} * args.query_head_count * args.items[i].position_count;
  }
  return {2 * pairs * args.kv.head_dim};
}

void Check(const AttentionArgs& args, std::uint32_t group) {
  ROOST_CHECK(args.q_dtype == DType::kF32, "q is {}", NameOf(args.q_dtype));
  for (std::uint32_t i = 0; i < args.item_count; ++i) {
    const AttentionItem& item = args.items[i];
    ROOST_CHECK(item.row_count <= 1 || item.row_count * group <= kMaxPackLanes, "{} rows of {} heads", item.row_count,
                group);
    ROOST_CHECK(item.output == AttentionItem::Output::kWhole ||
                    (item.first_position % kAttentionSpan == 0 && item.position_count <= kAttentionSpan),
                "a partial item of {} positions from {} on", item.position_count, item.first_position);
  }
}
}  // namespace

AttentionProfile AttentionProfileCpu(Device& device, std::uint32_t /*head_dim*/) {
  AttentionProfile profile;
  profile.concurrent_items = CpuDevice::Of(device).thread_count();
  return profile;
}

void AttentionCpu(Device& device, const AttentionArgs& args) {
  CpuDevice& cpu = CpuDevice::Of(device);
  const std::uint32_t group = args.query_head_count / args.kv.kv_head_count;
  const std::uint32_t packs_of_group = (group + kMaxPackLanes - 1) / kMaxPackLanes;
  const std::uint32_t packs_of_item = args.kv.kv_head_count * packs_of_group;
  const std::size_t floats = AttentionScratchFloats(args.kv.head_dim);
  Check(args, group);
  const std::size_t packs = std::size_t{args.item_count} * packs_of_item;
  ParallelFor(cpu, packs, CostOf(args), [&](std::size_t index, std::uint32_t thread) {
    Pack pack{.item = &args.items[index / packs_of_item],
              .kv_head = static_cast<std::uint32_t>(index % packs_of_item) / packs_of_group,
              .first_query_head = 0,
              .query_head_count = 0};
    const std::uint32_t first_of_group = static_cast<std::uint32_t>(index % packs_of_group) * kMaxPackLanes;
    pack.first_query_head = pack.kv_head * group + first_of_group;
    pack.query_head_count = std::min(kMaxPackLanes, group - first_of_group);
    if (pack.item->row_count > 0) HWY_DYNAMIC_DISPATCH(RunAttentionPack)(args, pack, cpu.Scratch(thread, floats));
  });
  const std::size_t rows = std::size_t{args.merge_count} * args.query_head_count;
  const Cost merging{std::uint64_t{8} * rows * args.kv.head_dim};
  ParallelFor(cpu, rows, merging, [&](std::size_t index, std::uint32_t thread) {
    const AttentionMerge& merge = args.merges[index / args.query_head_count];
    const auto head = static_cast<std::uint32_t>(index % args.query_head_count);
    if (merge.part_count > 0) HWY_DYNAMIC_DISPATCH(RunAttentionMerge)(args, merge, head, cpu.Scratch(thread, floats));
  });
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

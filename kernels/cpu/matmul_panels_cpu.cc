// Products with bf16 weights on a CPU that computes in f32: half the memory, and a decode step reads half as much. W is
// cut into panels of 32 outputs, each stored in the order in which it is read:
//
//   panel[pair][output] = W[output][2·pair] | W[output][2·pair + 1] << 16      pair = 0 … ceil(K / 2) - 1
//
// so that a shift and a mask widen two vectors of weights at once, in registers. Rows of x are widened into tiles of up
// to 6 rows, tile[k][row], and padded with zeros like W. A task is a few panels times a few tiles; it goes through them
// in depths of 256 inputs. With several tiles, the weights of one panel and depth are widened once for all of them, and
// stay in the first-level cache.
//
// Determinism: y[row][output] is one chain of multiply-adds over k in order, starting with the bias. The division into
// rows, panels, depths and threads changes no bit.
//
// A product of one tile is a decode step's. It reads W once, from memory, so it prefetches W some steps ahead; hardware
// prefetching stops at each 4 KiB.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/cpu/large_memory.h"
#include "kernels/cpu/matmul_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_panels_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "kernels/cpu/simd-inl.h"

#ifndef ROOST_KERNELS_MATMUL_PANELS_CPU_ONCE
#define ROOST_KERNELS_MATMUL_PANELS_CPU_ONCE
namespace roost::kernels {
namespace {

constexpr std::size_t kPanelOutputs = 32;
constexpr std::size_t kTileRows = 6;
constexpr std::size_t kDepthPairs = 128;
constexpr std::size_t kAheadPairs = 16;  // 2 KiB

// A tile times a panel, or times a part of its inputs.
struct TilePart {
  const std::uint32_t* panel = nullptr;  // [pairs][kPanelOutputs]
  const float* x = nullptr;              // [2 · pairs][rows]
  std::size_t rows = 0;
  std::size_t pairs = 0;
  // Start values of y: a row of kPanelOutputs every from_stride, which may be 0. May be y itself.
  const float* from = nullptr;
  std::size_t from_stride = 0;
  float* y = nullptr;  // [rows][kPanelOutputs], a row every y_stride
  std::size_t y_stride = 0;
};

}  // namespace
}  // namespace roost::kernels
#endif  // ROOST_KERNELS_MATMUL_PANELS_CPU_ONCE

HWY_BEFORE_NAMESPACE();
namespace roost::kernels::HWY_NAMESPACE {

using Floats = hn::CappedTag<float, 16>;

HWY_INLINE hn::Vec<Floats> EvenInput(Floats d, const std::uint32_t* words) {
  const hn::RebindToUnsigned<Floats> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::LoadU(d32, words)));
}

HWY_INLINE hn::Vec<Floats> OddInput(Floats d, const std::uint32_t* words) {
  const hn::RebindToUnsigned<Floats> d32;
  return hn::BitCast(d, hn::And(hn::LoadU(d32, words), hn::Set(d32, 0xffff0000U)));
}

// sums += x[0 … kRows-1] times the weights of one input, which load(v) returns.
template <std::size_t kRows, std::size_t kVectors, class Load>
HWY_INLINE void AddInput(Floats d, const float* x, const Load& load, hn::Vec<Floats> (&sums)[kRows][kVectors]) {
  hn::Vec<Floats> weights[kVectors];
  HWY_UNROLL(8)
  for (std::size_t v = 0; v < kVectors; ++v) weights[v] = load(v * hn::Lanes(d));
  HWY_UNROLL(8)
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto factor = hn::Set(d, x[row]);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = hn::MulAdd(factor, weights[v], sums[row][v]);
  }
}

// Loads the sums of kVectors vectors of outputs from `first` on, calls add(sums), and stores them.
template <std::size_t kRows, std::size_t kVectors, class Add>
HWY_INLINE void AddToOutputs(Floats d, const TilePart& part, std::size_t first, const Add& add) {
  const std::size_t n = hn::Lanes(d);
  hn::Vec<Floats> sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (std::size_t row = 0; row < kRows; ++row) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[row][v] = hn::LoadU(d, part.from + row * part.from_stride + first + v * n);
    }
  }
  add(sums);
  HWY_UNROLL(8)
  for (std::size_t row = 0; row < kRows; ++row) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[row][v], d, part.y + row * part.y_stride + first + v * n);
    }
  }
}

enum class Ahead : std::uint8_t { kNone, kPrefetch };

template <Ahead kAhead, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void MultiplyPacked(Floats d, const TilePart& part, std::size_t first) {
  AddToOutputs<kRows, kVectors>(d, part, first, [&](hn::Vec<Floats>(&sums)[kRows][kVectors]) HWY_ATTR {
    const std::uint32_t* words = part.panel + first;
    const float* x = part.x;
    for (std::size_t pair = 0; pair < part.pairs; ++pair) {
      if constexpr (kAhead == Ahead::kPrefetch) {
        hwy::Prefetch(words + kAheadPairs * kPanelOutputs);
        hwy::Prefetch(words + kAheadPairs * kPanelOutputs + kPanelOutputs / 2);
      }
      AddInput(
          d, x, [&](std::size_t i) HWY_ATTR { return EvenInput(d, words + i); }, sums);
      AddInput(
          d, x + kRows, [&](std::size_t i) HWY_ATTR { return OddInput(d, words + i); }, sums);
      words += kPanelOutputs;
      x += 2 * kRows;
    }
  });
}

// The sums of a pass stay in registers, of which there may be only 16: so more rows mean fewer outputs. Later passes
// over a panel find it in the cache.
template <std::size_t kRows>
HWY_INLINE void MultiplyPackedRows(const TilePart& part) {
  const Floats d;
  constexpr std::size_t kVectors = std::min<std::size_t>(kPanelOutputs / hn::MaxLanes(d), kRows <= 3 ? 4 : 2);
  const std::size_t step = kVectors * hn::Lanes(d);
  MultiplyPacked<Ahead::kPrefetch, kRows, kVectors>(d, part, 0);
  for (std::size_t first = step; first < kPanelOutputs; first += step) {
    MultiplyPacked<Ahead::kNone, kRows, kVectors>(d, part, first);
  }
}

// Widens the weights where they are used.
void MultiplyOnce(const TilePart& part) {
  static_assert(kTileRows == 6);
  switch (part.rows) {
    case 1: MultiplyPackedRows<1>(part); return;
    case 2: MultiplyPackedRows<2>(part); return;
    case 3: MultiplyPackedRows<3>(part); return;
    case 4: MultiplyPackedRows<4>(part); return;
    case 5: MultiplyPackedRows<5>(part); return;
    default: MultiplyPackedRows<6>(part);
  }
}

constexpr std::size_t kWidenedVectors = 2;

// widened: [input][kWidenedVectors · lanes], the outputs from `first` on.
template <std::size_t kRows>
HWY_INLINE void MultiplyWidenedRows(const TilePart& part, std::size_t first, const float* widened) {
  const Floats d;
  AddToOutputs<kRows, kWidenedVectors>(d, part, first, [&](hn::Vec<Floats>(&sums)[kRows][kWidenedVectors]) HWY_ATTR {
    const float* weights = widened;
    const float* x = part.x;
    for (std::size_t input = 0; input < 2 * part.pairs; ++input) {
      AddInput(
          d, x, [&](std::size_t i) HWY_ATTR { return hn::Load(d, weights + i); }, sums);
      weights += kWidenedVectors * hn::Lanes(d);
      x += kRows;
    }
  });
}

HWY_INLINE void MultiplyWidened(const TilePart& part, std::size_t first, const float* widened) {
  switch (part.rows) {
    case 1: MultiplyWidenedRows<1>(part, first, widened); return;
    case 2: MultiplyWidenedRows<2>(part, first, widened); return;
    case 3: MultiplyWidenedRows<3>(part, first, widened); return;
    case 4: MultiplyWidenedRows<4>(part, first, widened); return;
    case 5: MultiplyWidenedRows<5>(part, first, widened); return;
    default: MultiplyWidenedRows<6>(part, first, widened);
  }
}

HWY_INLINE void Widen(Floats d, const TilePart& part, std::size_t first, float* widened) {
  const std::size_t n = hn::Lanes(d);
  for (std::size_t pair = 0; pair < part.pairs; ++pair) {
    const std::uint32_t* words = part.panel + pair * kPanelOutputs + first;
    float* to = widened + 2 * pair * kWidenedVectors * n;
    HWY_UNROLL(2)
    for (std::size_t v = 0; v < kWidenedVectors; ++v) {
      hn::Store(EvenInput(d, words + v * n), d, to + v * n);
      hn::Store(OddInput(d, words + v * n), d, to + (kWidenedVectors + v) * n);
    }
  }
}

// For parts with the same panel and inputs (at most kDepthPairs): widens these weights once for all of them.
void MultiplyAll(const TilePart* parts, std::size_t part_count) {
  const Floats d;
  HWY_ALIGN float widened[2 * kDepthPairs * kWidenedVectors * hn::MaxLanes(d)];
  for (std::size_t first = 0; first < kPanelOutputs; first += kWidenedVectors * hn::Lanes(d)) {
    Widen(d, parts[0], first, widened);
    for (std::size_t i = 0; i < part_count; ++i) MultiplyWidened(parts[i], first, widened);
  }
}

}  // namespace roost::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roost::kernels {
namespace {
HWY_EXPORT(MultiplyOnce);
HWY_EXPORT(MultiplyAll);

constexpr std::size_t kPanelsPerTask = 8;
constexpr std::size_t kTilesPerTask = 16;
constexpr std::size_t kMinTilesPerTask = 4;  // widening the weights for fewer costs too much
// A task takes one core some 50 us to compute, so that no thread waits long for another one.
constexpr std::size_t kTaskProducts = std::size_t{3} << 20U;
constexpr std::size_t kTilesAtOnce = 64;  // limits the tiles' memory

constexpr std::size_t CeilDiv(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// For the last panel, which has only `outputs` outputs.
void MultiplyEdge(TilePart part, std::size_t outputs) {
  std::array<float, kTileRows * kPanelOutputs> whole{};
  for (std::size_t row = 0; row < part.rows; ++row) {
    std::copy_n(part.from + row * part.from_stride, outputs, whole.data() + row * kPanelOutputs);
  }
  float* const y = std::exchange(part.y, whole.data());
  const std::size_t y_stride = std::exchange(part.y_stride, kPanelOutputs);
  part.from = whole.data();
  part.from_stride = kPanelOutputs;
  HWY_DYNAMIC_DISPATCH(MultiplyOnce)(part);
  for (std::size_t row = 0; row < part.rows; ++row) {
    std::copy_n(whole.data() + row * kPanelOutputs, outputs, y + row * y_stride);
  }
}

class PanelWeights final : public CpuMatmulWeights {
 public:
  PanelWeights(std::uint32_t inputs, std::uint32_t outputs)
      : CpuMatmulWeights(inputs, outputs),
        pairs_(CeilDiv(inputs, 2)),
        panel_count_(CeilDiv(outputs, kPanelOutputs)),
        panels_(static_cast<std::uint32_t*>(AllocateLarge(panel_count_ * panel_words() * sizeof(std::uint32_t)))) {}

  [[nodiscard]] bool has_memory() const { return panels_ != nullptr; }
  void Pack(CpuDevice& device, const PrepareMatmulArgs& args);
  void Multiply(CpuDevice& device, const MatmulArgs& args) const override;

 private:
  // Some rows of a product, with x widened into tiles.
  struct Rows {
    const std::uint16_t* x = nullptr;  // [count][inputs]
    std::size_t count = 0;
    float* tiles = nullptr;
    float* y = nullptr;  // [count][outputs]

    [[nodiscard]] std::size_t tile_count() const { return CeilDiv(count, kTileRows); }
    [[nodiscard]] std::size_t RowsOf(std::size_t tile) const { return std::min(kTileRows, count - tile * kTileRows); }
  };

  [[nodiscard]] std::size_t panel_words() const { return pairs_ * kPanelOutputs; }
  void PackPanel(const std::uint16_t* rows, std::size_t panel, std::size_t outputs);
  void MultiplyAtOnce(CpuDevice& device, const Rows& rows) const;
  void WidenTile(const Rows& rows, std::size_t tile) const;
  [[nodiscard]] std::size_t TilesPerTask(const Rows& rows) const;
  [[nodiscard]] std::size_t PanelsPerTask(const CpuDevice& device, const Rows& rows) const;
  void MultiplyTask(const Rows& rows, const IndexRange& panels, const IndexRange& tiles) const;
  void MultiplyParts(std::span<const TilePart> parts, std::size_t panel) const;
  [[nodiscard]] TilePart PartOf(const Rows& rows, std::size_t panel, std::size_t tile, const IndexRange& depth) const;

  const std::size_t pairs_;
  const std::size_t panel_count_;
  LargeArray<std::uint32_t> panels_;
  std::vector<float> bias_;  // [panel_count_ · kPanelOutputs]
};

void PanelWeights::Pack(CpuDevice& device, const PrepareMatmulArgs& args) {
  bias_ = StackedBias(args);
  bias_.resize(panel_count_ * kPanelOutputs);
  const Cost packing{std::uint64_t{8} * outputs() * inputs()};
  ParallelFor(device, panel_count_, packing, [&](std::size_t panel, std::uint32_t thread) {
    const std::size_t first = panel * kPanelOutputs;
    const std::size_t count = std::min(kPanelOutputs, outputs() - first);
    float* scratch = device.Scratch(thread, CeilDiv(count * inputs(), 2));
    ConvertRows(args, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count),
                reinterpret_cast<std::byte*>(scratch));
    PackPanel(reinterpret_cast<const std::uint16_t*>(scratch), panel, count);
  });
}

// Takes a few pairs of all outputs at a time, so that each cache line of a row is read once.
void PanelWeights::PackPanel(const std::uint16_t* rows, std::size_t panel, std::size_t outputs) {
  constexpr std::size_t kPairs = 16;
  std::uint32_t* to = panels_.get() + panel * panel_words();
  for (std::size_t first = 0; first < pairs_; first += kPairs) {
    const std::size_t end = std::min(pairs_, first + kPairs);
    for (std::size_t output = 0; output < kPanelOutputs; ++output) {
      const std::uint16_t* row = rows + output * inputs();
      for (std::size_t pair = first; pair < end; ++pair) {
        std::uint32_t word = 0;
        if (output < outputs) {
          word = row[2 * pair];
          if (2 * pair + 1 < inputs()) word |= std::uint32_t{row[2 * pair + 1]} << 16U;
        }
        to[pair * kPanelOutputs + output] = word;
      }
    }
  }
}

void PanelWeights::Multiply(CpuDevice& device, const MatmulArgs& args) const {
  constexpr std::size_t kRowsAtOnce = kTilesAtOnce * kTileRows;
  const std::size_t most = std::min<std::size_t>(args.rows, kRowsAtOnce);
  // Thread 0's scratch, because the tasks use none.
  float* tiles = device.Scratch(0, CeilDiv(most, kTileRows) * kTileRows * 2 * pairs_);
  for (std::size_t first = 0; first < args.rows; first += kRowsAtOnce) {
    MultiplyAtOnce(device, {.x = static_cast<const std::uint16_t*>(args.x) + first * inputs(),
                            .count = std::min(kRowsAtOnce, args.rows - first),
                            .tiles = tiles,
                            .y = static_cast<float*>(args.y) + first * outputs()});
  }
}

void PanelWeights::MultiplyAtOnce(CpuDevice& device, const Rows& rows) const {
  ParallelFor(device, rows.tile_count(), Cost{std::uint64_t{4} * rows.count * inputs()},
              [&](std::size_t tile, std::uint32_t) { WidenTile(rows, tile); });
  const std::size_t panels_per_task = PanelsPerTask(device, rows);
  const std::size_t tiles_per_task = TilesPerTask(rows);
  const std::size_t tile_groups = CeilDiv(rows.tile_count(), tiles_per_task);
  const std::size_t tasks = CeilDiv(panel_count_, panels_per_task) * tile_groups;
  const Cost cost{std::uint64_t{rows.count} * outputs() * inputs()};
  ParallelFor(device, tasks, cost, [&](std::size_t task, std::uint32_t) {
    const std::size_t panel = task / tile_groups * panels_per_task;
    const std::size_t tile = task % tile_groups * tiles_per_task;
    MultiplyTask(rows, {panel, std::min(panel_count_, panel + panels_per_task)},
                 {tile, std::min(rows.tile_count(), tile + tiles_per_task)});
  });
}

std::size_t PanelWeights::TilesPerTask(const Rows& rows) const {
  const std::size_t tile_products = kTileRows * kPanelOutputs * inputs();
  return std::min(rows.tile_count(), std::clamp(kTaskProducts / tile_products, kMinTilesPerTask, kTilesPerTask));
}

// With several tiles, a task takes several panels for all its tiles, as long as it stays short and there are enough
// tasks for all threads. With one tile, each panel is read on its own from begin to end.
std::size_t PanelWeights::PanelsPerTask(const CpuDevice& device, const Rows& rows) const {
  if (rows.tile_count() == 1) return 1;
  const std::size_t panel_products = TilesPerTask(rows) * kTileRows * kPanelOutputs * inputs();
  const std::size_t most = std::min(kPanelsPerTask, kTaskProducts / panel_products);
  return std::clamp<std::size_t>(panel_count_ / (std::size_t{4} * device.thread_count()), 1,
                                 std::max<std::size_t>(1, most));
}

void PanelWeights::WidenTile(const Rows& rows, std::size_t tile) const {
  const std::size_t count = rows.RowsOf(tile);
  float* to = rows.tiles + tile * kTileRows * 2 * pairs_;
  const std::uint16_t* x = rows.x + tile * kTileRows * inputs();
  if (count == kTileRows) {  // the usual case: written from begin to end
    for (std::size_t k = 0; k < inputs(); ++k) {
      for (std::size_t row = 0; row < kTileRows; ++row) to[k * kTileRows + row] = BF16ToFloat(x[row * inputs() + k]);
    }
  } else {
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t k = 0; k < inputs(); ++k) to[k * count + row] = BF16ToFloat(x[row * inputs() + k]);
    }
  }
  if (inputs() < 2 * pairs_) std::fill_n(to + inputs() * count, count, 0.0F);
}

void PanelWeights::MultiplyTask(const Rows& rows, const IndexRange& panels, const IndexRange& tiles) const {
  std::array<TilePart, kTilesPerTask> parts;
  const std::size_t count = tiles.end - tiles.begin;
  for (std::size_t first = 0; first < pairs_; first += kDepthPairs) {
    const IndexRange depth{first, std::min(pairs_, first + kDepthPairs)};
    for (std::size_t panel = panels.begin; panel < panels.end; ++panel) {
      for (std::size_t i = 0; i < count; ++i) parts[i] = PartOf(rows, panel, tiles.begin + i, depth);
      MultiplyParts({parts.data(), count}, panel);
    }
  }
}

void PanelWeights::MultiplyParts(std::span<const TilePart> parts, std::size_t panel) const {
  const std::size_t outputs_left = outputs() - panel * kPanelOutputs;
  if (outputs_left < kPanelOutputs) {
    for (const TilePart& part : parts) MultiplyEdge(part, outputs_left);
  } else if (parts.size() == 1) {
    HWY_DYNAMIC_DISPATCH(MultiplyOnce)(parts.front());
  } else {
    HWY_DYNAMIC_DISPATCH(MultiplyAll)(parts.data(), parts.size());
  }
}

TilePart PanelWeights::PartOf(const Rows& rows, std::size_t panel, std::size_t tile, const IndexRange& depth) const {
  const std::size_t row_count = rows.RowsOf(tile);
  float* y = rows.y + tile * kTileRows * outputs() + panel * kPanelOutputs;
  const bool begins = depth.begin == 0;
  return {.panel = panels_.get() + panel * panel_words() + depth.begin * kPanelOutputs,
          .x = rows.tiles + tile * kTileRows * 2 * pairs_ + depth.begin * 2 * row_count,
          .rows = row_count,
          .pairs = depth.end - depth.begin,
          .from = begins ? bias_.data() + panel * kPanelOutputs : y,
          .from_stride = begins ? 0 : std::size_t{outputs()},
          .y = y,
          .y_stride = outputs()};
}

}  // namespace

Result<std::unique_ptr<MatmulWeights>> PreparePanels(CpuDevice& device, const PrepareMatmulArgs& args) {
  ROOST_CHECK(args.compute_dtype == DType::kBF16);
  auto weights = std::make_unique<PanelWeights>(args.inputs, OutputsOf(args));
  if (!weights->has_memory()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("no memory for weights of {} by {}", weights->outputs(), weights->inputs()),
                 {}};
  }
  weights->Pack(device, args);
  return std::unique_ptr<MatmulWeights>(std::move(weights));
}

}  // namespace roost::kernels
#endif  // HWY_ONCE

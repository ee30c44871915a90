#include "kernels/cpu/matmul_stream.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace roost::kernels {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kPanelOutputs = kStreamedPanelOutputs;
constexpr std::size_t kVectors = 4;  // of 16 outputs each
constexpr std::size_t kLanes = 16;
constexpr std::size_t kLineWords = 16;
constexpr std::size_t kAheadPairs = 8;  // 2 KiB

// Some rows times a panel, or times a part of its inputs: a chain.
struct PanelPart {
  const std::uint32_t* words = nullptr;  // [pairs][kPanelOutputs]
  const std::uint16_t* x = nullptr;      // the part's first input; a row every x_stride
  std::size_t x_stride = 0;
  std::size_t pairs = 0;   // whole ones
  bool ends_half = false;  // behind them, a pair of one input
  bool continues = false;  // adds to y
  float* y = nullptr;      // a row every y_stride
  std::size_t y_stride = 0;
  std::size_t outputs = 0;  // 1 to kPanelOutputs
};

enum class PairInputs : std::uint8_t { kOne, kTwo };

template <PairInputs kInputs>
std::uint32_t PairAt(const std::uint16_t* x) {
  std::uint32_t pair = 0;
  std::memcpy(&pair, x, kInputs == PairInputs::kOne ? sizeof(*x) : sizeof(pair));
  return pair;
}

template <PairInputs kInputs, std::size_t kRows>
[[gnu::target("avx512f,avx512bf16"), gnu::always_inline]] inline void AddPair(const std::uint32_t* words,
                                                                              const std::uint16_t* x,
                                                                              std::size_t x_stride,
                                                                              __m512 (&sums)[kRows][kVectors]) {
  __m512bh weights[kVectors];
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kVectors; ++v) {
    __builtin_prefetch(words + kAheadPairs * kPanelOutputs + v * kLineWords);
    weights[v] = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(words + v * kLanes));
  }
#pragma GCC unroll 6
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto pair = static_cast<int>(PairAt<kInputs>(x + row * x_stride));
    const auto factor = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(pair));
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = _mm512_dpbf16_ps(sums[row][v], weights[v], factor);
  }
}

__mmask16 MaskOf(const PanelPart& part, std::size_t vector) {
  const std::size_t first = vector * kLanes;
  const std::size_t count = first < part.outputs ? std::min(kLanes, part.outputs - first) : 0;
  return static_cast<__mmask16>((1U << count) - 1U);
}

template <std::size_t kRows>
[[gnu::target("avx512f,avx512bf16")]] void StreamGroup(const PanelPart& part) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 6
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[row][v] = _mm512_setzero_ps();
    }
  }
  const std::uint32_t* words = part.words;
  const std::uint16_t* x = part.x;
  for (std::size_t pair = 0; pair < part.pairs; ++pair, words += kPanelOutputs, x += 2) {
    AddPair<PairInputs::kTwo>(words, x, part.x_stride, sums);
  }
  if (part.ends_half) AddPair<PairInputs::kOne>(words, x, part.x_stride, sums);
#pragma GCC unroll 6
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* const y = part.y + row * part.y_stride + v * kLanes;
      if (part.continues) sums[row][v] = _mm512_add_ps(sums[row][v], _mm512_maskz_loadu_ps(MaskOf(part, v), y));
      _mm512_mask_storeu_ps(y, MaskOf(part, v), sums[row][v]);
    }
  }
}

void StreamRows(const PanelPart& part, std::size_t rows) {
  static_assert(kStreamedRowsAtOnce == 6);
  switch (rows) {
    case 1: StreamGroup<1>(part); return;
    case 2: StreamGroup<2>(part); return;
    case 3: StreamGroup<3>(part); return;
    case 4: StreamGroup<4>(part); return;
    case 5: StreamGroup<5>(part); return;
    default: StreamGroup<6>(part);
  }
}

// Rows in groups of about equal size.
void StreamPanel(const StreamedProduct& product, PanelPart part) {
  const std::size_t rows = product.rows;
  const std::size_t groups = (rows + kStreamedRowsAtOnce - 1) / kStreamedRowsAtOnce;
  const std::uint16_t* const x = part.x;
  float* const y = part.y;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t first = rows * group / groups;
    part.x = x + first * part.x_stride;
    part.y = y + first * part.y_stride;
    StreamRows(part, rows * (group + 1) / groups - first);
  }
}

}  // namespace

bool CanStream() { return true; }

void Stream(const StreamedProduct& product) {
  ROOST_CHECK(product.depth > 0 && (product.depth % 2 == 0 || product.depth == product.inputs));
  const std::size_t panel_words = StreamedPanelBytes(product.inputs) / sizeof(std::uint32_t);
  const auto* words = static_cast<const std::uint32_t*>(product.packed);
  for (std::size_t output = 0; output < product.outputs; output += kPanelOutputs, words += panel_words) {
    for (std::size_t input = 0; input < product.inputs; input += product.depth) {
      const std::size_t inputs = std::min<std::size_t>(product.depth, product.inputs - input);
      StreamPanel(product, {.words = words + input / 2 * kPanelOutputs,
                            .x = product.x + input,
                            .x_stride = product.inputs,
                            .pairs = inputs / 2,
                            .ends_half = inputs % 2 == 1,
                            .continues = input > 0,
                            .y = product.y + output,
                            .y_stride = product.y_stride,
                            .outputs = std::min<std::size_t>(kPanelOutputs, product.outputs - output)});
    }
  }
}

#else

bool CanStream() { return false; }

void Stream(const StreamedProduct& /*product*/) { ROOST_CHECK(false, "no code for this processor"); }

#endif

}  // namespace roost::kernels

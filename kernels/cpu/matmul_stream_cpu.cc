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

// Inputs 2·pair and 2·pair + 1; behind the last input, a zero.
std::uint32_t PairOf(const StreamedProduct& product, const std::uint16_t* x, std::size_t pair) {
  if (2 * pair + 1 == product.inputs) return x[2 * pair];
  std::uint32_t both = 0;
  std::memcpy(&both, x + 2 * pair, sizeof(both));
  return both;
}

template <std::size_t kRows>
[[gnu::target("avx512f,avx512bf16")]] void StreamPanel(const StreamedProduct& product, const std::uint32_t* words,
                                                       std::size_t first_output) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = _mm512_setzero_ps();
  }
  const std::size_t pairs = (product.inputs + 1) / 2;
  for (std::size_t pair = 0; pair < pairs; ++pair, words += kPanelOutputs) {
    __m512bh weights[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      __builtin_prefetch(words + kAheadPairs * kPanelOutputs + v * kLineWords);
      weights[v] = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(words + v * kLanes));
    }
#pragma GCC unroll 4
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto x = static_cast<int>(PairOf(product, product.x + row * product.inputs, pair));
      const auto factor = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(x));
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) sums[row][v] = _mm512_dpbf16_ps(sums[row][v], weights[v], factor);
    }
  }
#pragma GCC unroll 4
  for (std::size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t first = first_output + v * kLanes;
      const std::size_t left = first < product.outputs ? std::min(kLanes, product.outputs - first) : 0;
      const auto mask = static_cast<__mmask16>((1U << left) - 1U);
      _mm512_mask_storeu_ps(product.y + row * product.y_stride + first, mask, sums[row][v]);
    }
  }
}

template <std::size_t kRows>
void StreamRows(const StreamedProduct& product) {
  const std::size_t panel_words = StreamedPanelBytes(product.inputs) / sizeof(std::uint32_t);
  const auto* words = static_cast<const std::uint32_t*>(product.packed);
  for (std::size_t first = 0; first < product.outputs; first += kPanelOutputs, words += panel_words) {
    StreamPanel<kRows>(product, words, first);
  }
}

}  // namespace

bool CanStream() { return true; }

void Stream(const StreamedProduct& product) {
  static_assert(kMaxStreamedRows == 4);
  switch (product.rows) {
    case 1: StreamRows<1>(product); return;
    case 2: StreamRows<2>(product); return;
    case 3: StreamRows<3>(product); return;
    default: StreamRows<4>(product);
  }
}

#else

bool CanStream() { return false; }

void Stream(const StreamedProduct& /*product*/) { ROOST_CHECK(false, "no code for this processor"); }

#endif

}  // namespace roost::kernels

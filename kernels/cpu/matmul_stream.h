// Products with weights as oneDNN packs them for CPUs with AVX-512 and bf16. This code reads the packed weights from
// begin to end and prefetches, which oneDNN does not, so products of a few rows do not wait for memory. It takes any
// number of rows and writes them where they belong, so products of many rows can be cut into short pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roost::kernels {

// More rows than these read the weights again, from a cache.
inline constexpr std::uint32_t kStreamedRowsAtOnce = 6;

inline constexpr std::size_t kStreamedPanelOutputs = 64;

// The bytes of a packed panel, of which a W has one for each 64 outputs.
[[nodiscard]] constexpr std::size_t StreamedPanelBytes(std::size_t inputs) {
  return (inputs + 31) / 32 * 32 * kStreamedPanelOutputs * sizeof(std::uint16_t);
}

struct StreamedProduct {
  // oneDNN's BA16a64b2a: [ceil(outputs / 64)][ceil(inputs / 32) · 16][64] pairs of bf16, 64-byte aligned.
  const void* packed = nullptr;
  std::uint32_t inputs = 0;
  std::uint32_t depth = 0;  // even, or all inputs
  std::uint32_t outputs = 0;
  const std::uint16_t* x = nullptr;  // [rows][inputs]
  std::uint32_t rows = 0;            // any
  float* y = nullptr;                // [rows][outputs], a row every y_stride
  std::size_t y_stride = 0;
};

// Is there code for this processor? If so, Stream works wherever the CPU computes in bf16.
[[nodiscard]] bool CanStream();

// Each output is a sum of chains of the processor's bf16 products, one for each `depth` inputs in order: the other rows
// change no bit.
void Stream(const StreamedProduct& product);

}  // namespace roost::kernels

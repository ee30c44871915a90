// Buckets of batch sizes whose products are planned together.
#pragma once

#include <bit>
#include <cstdint>

namespace roost::kernels {

inline constexpr std::uint32_t kLargestDoublingBucket = 256;

// The number of rows that a batch of `rows` is planned for: the next power of two up to kLargestDoublingBucket, above
// that the next multiple of it. At least `rows`, and less than twice as many.
[[nodiscard]] constexpr std::uint32_t MatmulBucket(std::uint32_t rows) {
  if (rows <= kLargestDoublingBucket) return std::bit_ceil(rows);
  return (rows + kLargestDoublingBucket - 1) / kLargestDoublingBucket * kLargestDoublingBucket;
}

}  // namespace roost::kernels

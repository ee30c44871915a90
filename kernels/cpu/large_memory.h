// CPU memory for weights and caches, on large pages if the system has them: with small pages, reading gigabytes waits
// for the address of each page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <sys/mman.h>

namespace roost::kernels {

inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20U;

// Null when memory is short. At least 64-byte aligned, not cleared; free() releases it. The rest that does not fill a
// large page stays in small ones, so that nothing is wasted.
[[nodiscard]] inline void* AllocateLarge(std::size_t bytes) {
  constexpr std::size_t kSmallAlignment = 64;
  if (bytes > PTRDIFF_MAX - kLargePageBytes) return nullptr;
  const std::size_t rounded = (bytes + kSmallAlignment - 1) / kSmallAlignment * kSmallAlignment;
  const std::size_t whole_pages = rounded / kLargePageBytes * kLargePageBytes;
  void* memory = nullptr;
  if (::posix_memalign(&memory, whole_pages > 0 ? kLargePageBytes : kSmallAlignment, rounded) != 0) return nullptr;
  // Only a hint: small pages work too.
  if (whole_pages > 0) (void)::madvise(memory, whole_pages, MADV_HUGEPAGE);
  return memory;
}

struct FreeLarge {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using LargeArray = std::unique_ptr<T[], FreeLarge>;

}  // namespace roost::kernels

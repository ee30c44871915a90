// A vector for large tables that are read at random: it asks the system for huge pages (Linux, 2 MiB), so that a read
// is not preceded by another one for the page's address. Small ones are ordinary vectors.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace roost {

template <typename T>
class HugePageAllocator {
 public:
  using value_type = T;
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

  HugePageAllocator() = default;
  template <typename Other>
  explicit HugePageAllocator(const HugePageAllocator<Other>& /*other*/) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    void* memory = ::operator new (bytes, std::align_val_t{AlignmentOf(bytes)});
    // A wish: without huge pages the table is slower, and as good.
    if (bytes >= kHugePageBytes) (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t count) {
    ::operator delete (memory, std::align_val_t{AlignmentOf(count * sizeof(T))});
  }

  bool operator==(const HugePageAllocator&) const = default;

 private:
  static constexpr std::size_t AlignmentOf(std::size_t bytes) {
    return bytes >= kHugePageBytes ? kHugePageBytes : alignof(T);
  }
};

template <typename T>
using BigVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace roost

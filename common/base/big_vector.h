// A vector for large tables that are read at random. It asks the system for huge pages (Linux, 2 MiB), because then a
// read rarely has to look up the page's address in memory first. Small ones are ordinary vectors.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
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
    void* memory = ::operator new (bytes, std::align_val_t{alignof(T)});
    AskForHugePages(memory, bytes);
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t /*count*/) { ::operator delete (memory, std::align_val_t{alignof(T)}); }

  bool operator==(const HugePageAllocator&) const = default;

 private:
  // Asks for all huge pages that lie wholly inside. The system may refuse: then reads are slower, but still correct.
  static void AskForHugePages(void* memory, std::size_t bytes) {
    if (std::align(kHugePageBytes, kHugePageBytes, memory, bytes) == nullptr) return;
    (void)madvise(memory, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  }
};

template <typename T>
using BigVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace roost

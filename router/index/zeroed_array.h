// A large array that begins as zero bytes and takes memory only where it is touched, in huge pages if the system has
// them (Linux). Making one takes no time, regardless of its size, and parts of it can be freed. Zero bytes must be a
// valid T, and T must need no destructor.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "common/base/check.h"

namespace roost::router {

template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedArray(std::size_t size) : size_(size) {
    void* const memory =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ROOST_CHECK(memory != MAP_FAILED, "{} bytes of address space", bytes());
    // Only a hint: without huge pages the array is slower, but works.
    if (bytes() >= kHugePageBytes) (void)madvise(memory, bytes(), MADV_HUGEPAGE);
    data_ = static_cast<T*>(memory);
  }
  ~ZeroedArray() { (void)munmap(data_, bytes()); }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  [[nodiscard]] T& operator[](std::size_t index) { return data_[index]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return data_[index]; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(T); }

  // Frees the memory of the huge pages that are wholly before element `end`; they become zeros again.
  void ForgetBefore(std::size_t end) {
    const std::size_t end_byte = std::min(end, size_) * sizeof(T) / kHugePageBytes * kHugePageBytes;
    if (end_byte <= forgotten_bytes_) return;
    auto* const begin = reinterpret_cast<std::byte*>(data_) + forgotten_bytes_;
    (void)madvise(begin, end_byte - forgotten_bytes_, MADV_DONTNEED);
    forgotten_bytes_ = end_byte;
  }

 private:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

  const std::size_t size_;
  std::size_t forgotten_bytes_ = 0;
  T* data_ = nullptr;
};

}  // namespace roost::router

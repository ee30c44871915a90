// Arrays that one copy brings to a device together: clear, add them all, upload; then each is where At says, until the
// next upload.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/host_pieces.h"

namespace roost::worker {

// Where an array of a PackedArrays begins.
template <typename T>
struct PackedArray {
  std::size_t offset = 0;  // in bytes
};

class PackedArrays {
 public:
  explicit PackedArrays(const kernels::Backend& backend) : device_(backend) {}

  void Clear() {
    pieces_.clear();
    bytes_ = 0;
  }

  // Behind those that were added before. The array stays as it is until the upload.
  template <typename T>
  [[nodiscard]] PackedArray<T> Add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const PackedArray<T> array{(bytes_ + kAlignment - 1) / kAlignment * kAlignment};
    pieces_.push_back({.data = values.data(), .bytes = values.size() * sizeof(T), .offset = array.offset});
    bytes_ = array.offset + values.size() * sizeof(T);
    return array;
  }

  void Upload() {
    // So that it seldom grows: arrays that lie elsewhere are no use to recorded ops.
    device_.Reserve(std::max(kLeastBytes, std::bit_ceil(bytes_)));
    device_.Upload(std::span<const kernels::HostPiece>(pieces_));
  }

  template <typename T>
  [[nodiscard]] T* At(PackedArray<T> array) const {
    return reinterpret_cast<T*>(device_.as<std::byte>() + array.offset);
  }

  // See DeviceBuffer.
  [[nodiscard]] std::uint64_t growth_count() const { return device_.growth_count(); }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 18U;

  std::vector<kernels::HostPiece> pieces_;
  std::size_t bytes_ = 0;
  kernels::DeviceBuffer device_;
};

}  // namespace roost::worker

// Arrays that one copy brings to a device together: clear, add them all, upload; then each is where At says, until the
// next upload.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device_memory.h"

namespace roost::worker {

// Where an array of a PackedArrays begins.
template <typename T>
struct PackedArray {
  std::size_t offset = 0;  // in bytes
};

class PackedArrays {
 public:
  explicit PackedArrays(const kernels::Backend& backend) : device_(backend) {}

  void Clear() { host_.clear(); }

  template <typename T>
  [[nodiscard]] PackedArray<T> Add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const PackedArray<T> array{(host_.size() + kAlignment - 1) / kAlignment * kAlignment};
    host_.resize(array.offset + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(host_.data() + array.offset, values.data(), values.size() * sizeof(T));
    return array;
  }

  void Upload() {
    device_.Reserve(std::bit_ceil(host_.size()));  // so that it seldom grows
    device_.Upload(std::span<const std::byte>(host_));
  }

  template <typename T>
  [[nodiscard]] T* At(PackedArray<T> array) const {
    return reinterpret_cast<T*>(device_.as<std::byte>() + array.offset);
  }

 private:
  static constexpr std::size_t kAlignment = 16;

  std::vector<std::byte> host_;
  kernels::DeviceBuffer device_;
};

}  // namespace roost::worker

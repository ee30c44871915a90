// Arrays that one copy brings to a device together. Clear, add all arrays, upload; then At says where each array is,
// until the next upload. Memory must be reserved before; reserving more may move it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/host_pieces.h"

namespace roost::worker {

// The begin of an array in a PackedArrays.
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

  // Appends an array, which must not change until the upload.
  template <typename T>
  [[nodiscard]] PackedArray<T> Add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const PackedArray<T> array{(bytes_ + kAlignment - 1) / kAlignment * kAlignment};
    pieces_.push_back({.data = values.data(), .bytes = values.size() * sizeof(T), .offset = array.offset});
    bytes_ = array.offset + values.size() * sizeof(T);
    return array;
  }

  // The size of all arrays together.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Reserves this many bytes on the device and in the staging memory; false when the device has too little memory.
  [[nodiscard]] bool TryReserve(std::size_t bytes) { return device_.TryReserveUploads(bytes); }

  // Memory for the arrays must be reserved.
  void Upload() { device_.Upload(std::span<const kernels::HostPiece>(pieces_)); }

  template <typename T>
  [[nodiscard]] T* At(PackedArray<T> array) const {
    return reinterpret_cast<T*>(device_.as<std::byte>() + array.offset);
  }

  static constexpr std::size_t kAlignment = 16;  // of each array

 private:
  std::vector<kernels::HostPiece> pieces_;
  std::size_t bytes_ = 0;
  kernels::DeviceBuffer device_;
};

}  // namespace roost::worker

// Owners of devices and their memory.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "kernels/ops.h"

namespace roost::kernels {

// An open device together with the ops that understand it.
class Backend {
 public:
  [[nodiscard]] static Result<Backend> Open(const OpTable& ops, const DeviceOptions& options) {
    ROOST_ASSIGN_OR_RETURN(Device * device, ops.open(options));
    return Backend(ops, device);
  }

  [[nodiscard]] const OpTable& ops() const { return *ops_; }
  [[nodiscard]] Device& device() const { return *device_; }

 private:
  Backend(const OpTable& ops, Device* device) : ops_(&ops), device_(device, ops.close) {}

  const OpTable* ops_;
  std::unique_ptr<Device, void (*)(Device*)> device_;
};

// Memory of a device, which outlives it. Grows on demand and never shrinks; growing loses what was there.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const Backend& backend) : ops_(&backend.ops()), device_(&backend.device()) {}
  ~DeviceBuffer() { Free(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : ops_(other.ops_),
        device_(other.device_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // At least `bytes`; false when memory is short, then the buffer is empty.
  [[nodiscard]] bool TryReserve(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    Free();
    memory_ = ops_->allocate(*device_, bytes);
    bytes_ = memory_ != nullptr ? bytes : 0;
    return memory_ != nullptr;
  }

  // The same where the caller can not go on without it: the device fails.
  void Reserve(std::size_t bytes) {
    if (!TryReserve(bytes)) ops_->fail(*device_, "allocate", fmt::format("no memory for {} bytes", bytes));
  }

  // At least `bytes`, and as much on the way for uploads.
  [[nodiscard]] bool TryReserveUploads(std::size_t bytes) {
    ops_->reserve_uploads(*device_, bytes);
    return TryReserve(bytes);
  }

  // Becomes a copy of `values`.
  template <typename T>
  void Upload(std::span<const T> values) {
    Reserve(values.size_bytes());
    ops_->copy_to_device(*device_, memory_, values.data(), values.size_bytes());
  }

  // Takes the pieces to their places in what was reserved, as one copy.
  void Upload(std::span<const HostPiece> pieces) { ops_->upload(*device_, memory_, pieces); }

  [[nodiscard]] void* data() const { return memory_; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void Free() {
    if (memory_ != nullptr) ops_->release(*device_, memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  const OpTable* ops_;
  Device* device_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace roost::kernels

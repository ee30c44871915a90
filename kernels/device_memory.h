// RAII owners of devices and their memory.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "kernels/ops.h"

namespace roost::kernels {

// An open device together with its ops.
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

// Memory of a device; the device outlives it. Grows on demand and never shrinks; growing loses the content, and needs
// memory for both sizes for a moment.
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

  // Makes room for at least `bytes`; false when memory is short, then the buffer stays as it is.
  [[nodiscard]] bool TryReserve(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    void* const larger = ops_->allocate(*device_, bytes);
    if (larger == nullptr) return false;
    Free();
    memory_ = larger;
    bytes_ = bytes;
    return true;
  }

  // The same for callers that can not go on without it: when memory is short, the device fails.
  void Reserve(std::size_t bytes) {
    if (!TryReserve(bytes)) ops_->fail(*device_, "allocate", fmt::format("no memory for {} bytes", bytes));
  }

  // The same for a buffer that Upload fills, including the staging memory for uploads.
  [[nodiscard]] bool TryReserveUploads(std::size_t bytes) {
    return ops_->reserve_uploads(*device_, bytes) && TryReserve(bytes);
  }

  // Makes the buffer a copy of `values`.
  template <typename T>
  void Upload(std::span<const T> values) {
    Reserve(values.size_bytes());
    ops_->copy_to_device(*device_, memory_, values.data(), values.size_bytes());
  }

  // Copies the pieces to their offsets in reserved memory, as one copy.
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

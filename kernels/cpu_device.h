// The CPU as a device: plain memory, scratch for each compute thread, and the kernels of matrix products.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "kernels/host_readbacks.h"

namespace roost::kernels {

class MatmulKernelCache;

// The tasks of one compute thread; other threads may take some of them; see cpu_parallel.h.
struct alignas(64) TaskShare {
  std::atomic<std::size_t> next = 0;
  std::size_t end = 0;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::uint32_t thread_count);
  ~CpuDevice();

  [[nodiscard]] static CpuDevice& Of(Device& device) { return static_cast<CpuDevice&>(device); }

  [[nodiscard]] std::uint32_t thread_count() const { return thread_count_; }
  [[nodiscard]] MatmulKernelCache& matmul_kernels() { return *matmul_kernels_; }
  [[nodiscard]] HostReadbacks& readbacks() { return readbacks_; }
  // The current batch. CPU ops are finished when they return.
  [[nodiscard]] const BatchShape& batch() const { return batch_; }
  void BeginBatch(const BatchShape& batch) { batch_ = batch; }

  // One share per thread.
  [[nodiscard]] std::span<TaskShare> shares() { return shares_; }

  // At least `floats` floats for compute thread `thread`, 64-byte aligned, valid until its next call.
  [[nodiscard]] float* Scratch(std::uint32_t thread, std::size_t floats);

 private:
  struct FreeDeleter {
    void operator()(float* memory) const;
  };
  struct Buffer {
    std::unique_ptr<float, FreeDeleter> memory;
    std::size_t floats = 0;
  };

  const std::uint32_t thread_count_;
  std::vector<Buffer> scratch_;    // each used only by its compute thread
  std::vector<TaskShare> shares_;  // of the running loop
  std::unique_ptr<MatmulKernelCache> matmul_kernels_;
  HostReadbacks readbacks_;
  BatchShape batch_;
};

}  // namespace roost::kernels

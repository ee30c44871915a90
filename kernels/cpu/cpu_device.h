// The CPU as a device: plain memory, scratch for each compute thread, and the kernels of matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/host_readbacks.h"
#include "kernels/cpu/work_pool.h"
#include "kernels/device.h"

namespace roost::kernels {

class MatmulKernelCache;

class CpuDevice final : public Device {
 public:
  // `on_threads` as in DeviceOptions.
  explicit CpuDevice(std::uint32_t thread_count, std::function<void(std::uint32_t)> on_threads = {});
  ~CpuDevice();

  [[nodiscard]] static CpuDevice& Of(Device& device) { return static_cast<CpuDevice&>(device); }

  [[nodiscard]] std::uint32_t thread_count() const { return pool_.thread_count(); }
  [[nodiscard]] MatmulKernelCache& matmul_kernels() { return *matmul_kernels_; }
  [[nodiscard]] HostReadbacks& readbacks() { return readbacks_; }
  // The current batch. CPU ops are finished when they return.
  [[nodiscard]] const BatchShape& batch() const { return batch_; }
  void BeginBatch(const BatchShape& batch);

  [[nodiscard]] WorkPool& pool() { return pool_; }

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

  std::vector<Buffer> scratch_;  // each used only by its compute thread
  std::unique_ptr<MatmulKernelCache> matmul_kernels_;
  HostReadbacks readbacks_;
  BatchShape batch_;
  WorkPool pool_;
  std::optional<PoolWatch> watch_;  // none: always all threads
};

}  // namespace roost::kernels

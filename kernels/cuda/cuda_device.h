// A CUDA device: one stream, on which all ops take effect in the order of their calls; pinned memory, through which
// small copies start without waiting; and cuBLASLt's handle. Only for the files of the CUDA backend.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "kernels/cuda/cuda_limits.h"
#include "kernels/cuda/matmul_plans_cuda.h"
#include "kernels/device.h"
#include "kernels/host_pieces.h"
#include "kernels/memory_use.h"

namespace roost::kernels {

[[nodiscard]] CudaDeviceLimits LimitsOf(const cudaDeviceProp& properties);

class CudaDevice final : public Device {
 public:
  // kUnavailable when there is no such device or it can not be used, with CUDA's reason.
  [[nodiscard]] static Result<CudaDevice*> Open(const DeviceOptions& options);
  ~CudaDevice();

  [[nodiscard]] static CudaDevice& Of(Device& device) { return static_cast<CudaDevice&>(device); }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] cublasLtHandle_t cublas() const { return cublas_; }
  [[nodiscard]] CudaMatmulPlans& matmul_plans() { return matmul_plans_; }
  // kWorkspaceBytes for the product that is running.
  [[nodiscard]] void* workspace() const { return workspace_; }
  [[nodiscard]] std::uint32_t ordinal() const { return ordinal_; }
  [[nodiscard]] const std::string& card() const { return card_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] auto fail() const { return fail_; }
  [[nodiscard]] std::uint32_t multiprocessor_count() const { return multiprocessor_count_; }
  [[nodiscard]] SharedAllowances& shared_allowances() { return shared_allowances_; }
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;

  // Ends the process with one line, see device.h. `call` is the function or kernel that failed.
  [[noreturn]] void Fail(const char* call, const char* error) const { FailFor(*this, call, error); }
  // The same for another device, which computes the same batch.
  [[noreturn]] void FailFor(const CudaDevice& device, const char* call, const char* error) const;
  // The same, unless the status is success.
  void Check(cudaError_t status, const char* call) const;
  void Check(cublasStatus_t status, const char* call) const;
  // The same, but memory that is short gives false, and the device goes on.
  [[nodiscard]] bool HasMemory(cudaError_t status, const char* call) const;

  // Also makes this the current device of the calling thread, which need not be the one that opened it.
  void BeginBatch(const BatchShape& batch);

  // The status of the ops so far: cudaErrorNotReady while they run; success also while they are being recorded. From
  // any thread that has this as its current device.
  [[nodiscard]] cudaError_t Query() const;
  // Ops between the two are recorded; the device's thread makes these calls.
  void BeginCapture();
  [[nodiscard]] cudaGraph_t EndCapture();
  [[nodiscard]] bool is_capturing() const { return is_capturing_; }

  // `watch` is called repeatedly while the host waits for the device. It must end the process if the wait would never
  // end.
  void SetWatch(std::function<void()> watch) { watch_ = std::move(watch); }

  // Null when memory is short.
  [[nodiscard]] void* Allocate(std::size_t bytes);
  void Release(void* memory);
  [[nodiscard]] MemoryUse memory_use() const;
  // Returns when `from` may change. Small copies do not wait for the stream.
  void CopyToDevice(void* to, const void* from, std::size_t bytes);
  // The same for several pieces. Waits at most for the copy before the last.
  void Upload(void* to, std::span<const HostPiece> pieces);
  // Pinned memory for uploads of up to `bytes`. False when memory is short; then the old memory stays.
  [[nodiscard]] bool ReserveUploads(std::size_t bytes);
  void CopyToHost(void* to, const void* from, std::size_t bytes);
  // See the op table.
  void BeginReadback(const void* from, std::size_t bytes);
  void EndReadback(void* to);

 private:
  // A piece of pinned memory, and the event at which the copy from or to it is done.
  struct Staging {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
    std::size_t bytes = 0;  // of a readback: its size; else: the capacity
    BatchShape batch = {};  // of a readback: the batch whose results come back
  };
  static constexpr std::size_t kStagingBytes = std::size_t{8} << 20U;
  static constexpr std::size_t kStagingCount = 4;
  // A step is uploaded while the previous one may still be under way.
  static constexpr std::size_t kUploadCount = 2;
  static constexpr std::size_t kFirstUploadBytes = std::size_t{1} << 20U;
  static constexpr std::size_t kSmallBytes = std::size_t{1} << 20U;

  CudaDevice(const DeviceOptions& options, const cudaDeviceProp& properties);
  [[nodiscard]] Result<void> Create();
  [[nodiscard]] static Result<void> Create(Staging& staging, std::size_t bytes);
  static void Destroy(const Staging& staging);
  [[nodiscard]] bool TryGrow(Staging& staging, std::size_t bytes) const;
  // The batch in which that device failed; see DeviceFailure.
  [[nodiscard]] const BatchShape& FailedBatch(const CudaDevice& device) const;
  // Waits for the stream, including replayed recordings.
  void Synchronize() const;
  void Await(cudaEvent_t event) const;
  void Watch(const std::function<cudaError_t()>& query, const char* call) const;

  const std::uint32_t ordinal_;
  const std::string card_;  // "NVIDIA H100"
  const std::string name_;  // "cuda:0 (NVIDIA H100)"
  const std::uint32_t multiprocessor_count_;
  void (*const fail_)(const DeviceFailure& failure);
  BatchShape batch_;  // the latest
  std::function<void()> watch_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex asking_;  // held while ops are recorded: a query of the stream would cancel its recording
  bool is_capturing_ = false;
  cublasLtHandle_t cublas_ = nullptr;
  void* workspace_ = nullptr;
  CudaMatmulPlans matmul_plans_;
  SharedAllowances shared_allowances_;
  std::array<Staging, kStagingCount> staging_;  // used in turn
  std::size_t next_staging_ = 0;
  std::array<Staging, kUploadCount> uploads_;  // used in turn
  std::size_t next_upload_ = 0;
  void* small_result_ = nullptr;                  // pinned: small results are copied through it
  std::array<Staging, kMaxReadbacks> readbacks_;  // used in turn
  std::size_t readbacks_begun_ = 0;
  std::size_t readbacks_ended_ = 0;
};

}  // namespace roost::kernels

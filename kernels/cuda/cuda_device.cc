#include "kernels/cuda/cuda_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "kernels/parallel_copy.h"

namespace roost::kernels {
namespace {

Error Unavailable(const char* call, const char* reason) {
  return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", call, reason), "device"};
}

Result<void> ToResult(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return {};
  return Unavailable(call, cudaGetErrorString(status));
}

Result<void> ToResult(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Unavailable(call, cublasLtGetStatusString(status));
}

}  // namespace

CudaDeviceLimits LimitsOf(const cudaDeviceProp& properties) {
  return {.major = properties.major, .minor = properties.minor, .shared_bytes = properties.sharedMemPerBlockOptin};
}

Result<CudaDevice*> CudaDevice::Open(const DeviceOptions& options) {
  int count = 0;
  ROOST_RETURN_IF_ERROR(ToResult(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  if (options.ordinal >= static_cast<std::uint32_t>(count)) {
    return Error{ErrorCode::kUnavailable, fmt::format("there is no device {}: {} found", options.ordinal, count),
                 "device"};
  }
  cudaDeviceProp properties{};
  ROOST_RETURN_IF_ERROR(
      ToResult(cudaGetDeviceProperties(&properties, static_cast<int>(options.ordinal)), "cudaGetDeviceProperties"));
  if (const std::string why = WhyUnusable(LimitsOf(properties)); !why.empty()) {
    return Error{ErrorCode::kUnavailable, fmt::format("device {} can not be used: {}", options.ordinal, why), "device"};
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(options, properties));
  ROOST_RETURN_IF_ERROR(device->Create());
  return device.release();
}

CudaDevice::CudaDevice(const DeviceOptions& options, const cudaDeviceProp& properties)
    : ordinal_(options.ordinal),
      card_(properties.name),
      name_(fmt::format("cuda:{} ({})", options.ordinal, properties.name)),
      multiprocessor_count_(static_cast<std::uint32_t>(properties.multiProcessorCount)),
      fail_(options.fail) {}

Result<void> CudaDevice::Create() {
  ROOST_RETURN_IF_ERROR(ToResult(cudaSetDevice(static_cast<int>(ordinal_)), "cudaSetDevice"));
  ROOST_RETURN_IF_ERROR(ToResult(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
  ROOST_RETURN_IF_ERROR(ToResult(cublasLtCreate(&cublas_), "cublasLtCreate"));
  ROOST_RETURN_IF_ERROR(ToResult(cudaMalloc(&workspace_, kWorkspaceBytes), "cudaMalloc"));
  ROOST_RETURN_IF_ERROR(ToResult(cudaMallocHost(&small_result_, kSmallBytes), "cudaMallocHost"));
  for (Staging& staging : staging_) ROOST_RETURN_IF_ERROR(Create(staging, kStagingBytes));
  for (Staging& upload : uploads_) ROOST_RETURN_IF_ERROR(Create(upload, kFirstUploadBytes));
  for (Staging& readback : readbacks_) ROOST_RETURN_IF_ERROR(Create(readback, kMaxReadbackBytes));
  return {};
}

Result<void> CudaDevice::Create(Staging& staging, std::size_t bytes) {
  ROOST_RETURN_IF_ERROR(ToResult(cudaMallocHost(&staging.memory, bytes), "cudaMallocHost"));
  staging.bytes = bytes;
  return ToResult(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming), "cudaEventCreate");
}

void CudaDevice::Destroy(const Staging& staging) {
  if (staging.copied != nullptr) cudaEventDestroy(staging.copied);
  if (staging.memory != nullptr) cudaFreeHost(staging.memory);
}

// Failures while a device closes have no effect: statuses are ignored.
CudaDevice::~CudaDevice() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (const Staging& staging : staging_) Destroy(staging);
  for (const Staging& upload : uploads_) Destroy(upload);
  for (const Staging& readback : readbacks_) Destroy(readback);
  if (small_result_ != nullptr) cudaFreeHost(small_result_);
  if (workspace_ != nullptr) cudaFree(workspace_);
  if (cublas_ != nullptr) cublasLtDestroy(cublas_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void CudaDevice::FailFor(const CudaDevice& device, const char* call, const char* error) const {
  fail_({.call = call, .error = error, .device = device.name_, .batch = FailedBatch(device)});
  std::abort();  // fail_ does not return
}

// A lost device returns this error from every call, also from one that begins the next batch. So it was lost in the
// oldest batch whose results have not come back. The same holds for another rank's device, which this device may wait
// for in that batch. If the device still works, the call itself failed, in the latest batch.
const BatchShape& CudaDevice::FailedBatch(const CudaDevice& device) const {
  if (readbacks_begun_ == readbacks_ended_) return batch_;
  const Staging& first = readbacks_[readbacks_ended_ % kMaxReadbacks];
  const cudaError_t status = cudaEventQuery(first.copied);
  const bool goes_on = status == cudaSuccess || (status == cudaErrorNotReady && &device == this);
  return goes_on ? batch_ : first.batch;
}

void CudaDevice::Check(cudaError_t status, const char* call) const {
  if (status != cudaSuccess) [[unlikely]]
    Fail(call, cudaGetErrorString(status));
}

void CudaDevice::Check(cublasStatus_t status, const char* call) const {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    Fail(call, cublasLtGetStatusString(status));
}

bool CudaDevice::HasMemory(cudaError_t status, const char* call) const {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is handled here
    return false;
  }
  Check(status, call);
  return true;
}

void CudaDevice::BeginBatch(const BatchShape& batch) {
  batch_ = batch;
  Check(cudaSetDevice(static_cast<int>(ordinal_)), "cudaSetDevice");
}

cudaError_t CudaDevice::Query() const {
  const std::unique_lock lock(asking_, std::try_to_lock);
  return lock ? cudaStreamQuery(stream_) : cudaSuccess;
}

void CudaDevice::BeginCapture() {
  asking_.lock();
  Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  is_capturing_ = true;
}

cudaGraph_t CudaDevice::EndCapture() {
  cudaGraph_t graph = nullptr;
  Check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  is_capturing_ = false;
  asking_.unlock();
  return graph;
}

void* CudaDevice::Allocate(std::size_t bytes) {
  void* memory = nullptr;
  return HasMemory(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc") ? memory : nullptr;
}

// cudaFree waits for the device, so nothing still uses the memory.
void CudaDevice::Release(void* memory) { Check(cudaFree(memory), "cudaFree"); }

MemoryUse CudaDevice::memory_use() const {
  MemoryUse use;
  // It asks the thread's device, and a thread that has computed nothing yet has the first one.
  Check(cudaSetDevice(static_cast<int>(ordinal_)), "cudaSetDevice");
  Check(cudaMemGetInfo(&use.free_bytes, &use.total_bytes), "cudaMemGetInfo");
  return use;
}

void CudaDevice::CopyToDevice(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kStagingBytes) {
    const std::size_t piece = std::min(bytes - done, kStagingBytes);
    Staging& staging = staging_[next_staging_];
    next_staging_ = (next_staging_ + 1) % kStagingCount;
    Await(staging.copied);
    CopyInParallel(staging.memory, static_cast<const std::byte*>(from) + done, piece);
    Check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, staging.memory, piece, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
    Check(cudaEventRecord(staging.copied, stream_), "cudaEventRecord");
  }
}

void CudaDevice::Upload(void* to, std::span<const HostPiece> pieces) {
  const std::size_t bytes = BytesOf(pieces);
  if (bytes == 0) return;
  Staging& upload = uploads_[next_upload_];
  next_upload_ = (next_upload_ + 1) % kUploadCount;
  Await(upload.copied);
  if (!TryGrow(upload, bytes)) Check(cudaErrorMemoryAllocation, "cudaMallocHost");
  Gather(pieces, upload.memory);
  Check(cudaMemcpyAsync(to, upload.memory, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync to the device");
  Check(cudaEventRecord(upload.copied, stream_), "cudaEventRecord");
}

bool CudaDevice::ReserveUploads(std::size_t bytes) {
  for (Staging& upload : uploads_) {
    Await(upload.copied);
    if (!TryGrow(upload, bytes)) return false;
  }
  return true;
}

// Grows to at least `bytes`. Nothing may still use the old memory.
bool CudaDevice::TryGrow(Staging& staging, std::size_t bytes) const {
  if (bytes <= staging.bytes) return true;
  const std::size_t larger_bytes = std::bit_ceil(bytes);
  void* larger = nullptr;
  if (!HasMemory(cudaMallocHost(&larger, larger_bytes), "cudaMallocHost")) return false;
  Check(cudaFreeHost(std::exchange(staging.memory, larger)), "cudaFreeHost");
  staging.bytes = larger_bytes;
  return true;
}

void CudaDevice::CopyToHost(void* to, const void* from, std::size_t bytes) {
  const bool small = bytes <= kSmallBytes;
  if (bytes > 0) {
    Check(cudaMemcpyAsync(small ? small_result_ : to, from, bytes, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync to the host");
  }
  Synchronize();
  if (small && bytes > 0) std::memcpy(to, small_result_, bytes);
}

void CudaDevice::BeginReadback(const void* from, std::size_t bytes) {
  ROOST_CHECK(readbacks_begun_ - readbacks_ended_ < kMaxReadbacks && bytes <= kMaxReadbackBytes);
  Staging& readback = readbacks_[readbacks_begun_ % kMaxReadbacks];
  readback.bytes = bytes;
  readback.batch = batch_;
  if (bytes > 0) {
    Check(cudaMemcpyAsync(readback.memory, from, bytes, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync to the host");
  }
  Check(cudaEventRecord(readback.copied, stream_), "cudaEventRecord");
  ++readbacks_begun_;
}

void CudaDevice::EndReadback(void* to) {
  ROOST_CHECK(readbacks_ended_ < readbacks_begun_, "no readback has begun");
  const Staging& readback = readbacks_[readbacks_ended_ % kMaxReadbacks];
  Await(readback.copied);
  ++readbacks_ended_;
  if (readback.bytes > 0) std::memcpy(to, readback.memory, readback.bytes);
}

void CudaDevice::Synchronize() const {
  Watch([this] { return cudaStreamQuery(stream_); }, "cudaStreamQuery");
  Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaDevice::Await(cudaEvent_t event) const {
  Watch([event] { return cudaEventQuery(event); }, "cudaEventQuery");
  Check(cudaEventSynchronize(event), "cudaEventSynchronize");
}

// If there is a watch, polls `query` until it is no longer cudaErrorNotReady, and calls the watch in between.
void CudaDevice::Watch(const std::function<cudaError_t()>& query, const char* call) const {
  if (!watch_) return;
  cudaError_t status = query();
  for (; status == cudaErrorNotReady; status = query()) {
    watch_();
    std::this_thread::yield();
  }
  Check(status, call);
}

// For the launches in cuda_primitives.cuh.
cudaStream_t StreamOf(Device& device) { return CudaDevice::Of(device).stream(); }

std::uint32_t MultiprocessorCount(Device& device) { return CudaDevice::Of(device).multiprocessor_count(); }

void CheckLaunch(Device& device, cudaError_t error) { CudaDevice::Of(device).Check(error, "a kernel's launch"); }

void LoadKernel(Device& device, const void* kernel) {
  cudaFuncAttributes attributes{};
  CudaDevice& cuda = CudaDevice::Of(device);
  cuda.Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  cuda.shared_allowances().Declare(kernel, static_cast<std::uint32_t>(attributes.sharedSizeBytes));
}

void AllowShared(Device& device, const void* kernel, std::uint32_t bytes) {
  CudaDevice& cuda = CudaDevice::Of(device);
  if (!cuda.shared_allowances().Raise(kernel, bytes)) return;
  cuda.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
             "cudaFuncSetAttribute");
}

}  // namespace roost::kernels

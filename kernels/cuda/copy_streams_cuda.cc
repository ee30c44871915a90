#include "kernels/cuda/copy_streams_cuda.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace roost::kernels {
namespace {

struct Way {
  cudaStream_t stream = nullptr;
  std::array<cudaEvent_t, CopyStreams::kPlaces> copied{};
};

class CudaCopyStreams final : public CopyStreams {
 public:
  explicit CudaCopyStreams(const CudaDevice& device)
      : ordinal_(static_cast<int>(device.ordinal())),
        name_(device.name()),
        fail_(device.fail()),
        ops_(device.stream()) {}
  ~CudaCopyStreams() override {
    cudaSetDevice(ordinal_);  // failures while a device closes have no effect
    for (const Way& way : ways_) {
      for (const cudaEvent_t event : way.copied) {
        if (event != nullptr) cudaEventDestroy(event);
      }
      if (way.stream != nullptr) cudaStreamDestroy(way.stream);
    }
    if (gathered_ != nullptr) cudaEventDestroy(gathered_);
    if (gathers_ != nullptr) cudaStreamDestroy(gathers_);
  }

  // False when memory is short.
  [[nodiscard]] bool Create() {
    Use();
    if (!Make(gathers_) || !Make(gathered_, cudaEventDisableTiming)) return false;
    for (Way& way : ways_) {
      if (!Make(way.stream)) return false;
      // A thread that waits for a copy sleeps.
      for (cudaEvent_t& event : way.copied) {
        if (!Make(event, cudaEventDisableTiming | cudaEventBlockingSync)) return false;
      }
    }
    return true;
  }

  void Gather(const MoveBlocksArgs& args) override {
    Use();
    Check(GatherBlocksOn(gathers_, args), "a kernel's launch");
    Check(cudaEventRecord(gathered_, gathers_), "cudaEventRecord");
  }

  void Begin(CopyWay direction, std::size_t place, const RowsCopy& copy) override {
    Use();
    const Way& way = WayOf(direction);
    const bool is_out = direction == CopyWay::kOut;
    if (is_out) Check(cudaStreamWaitEvent(way.stream, gathered_, 0), "cudaStreamWaitEvent");
    const cudaMemcpyKind kind = is_out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    void* const to = is_out ? copy.host : copy.device;
    const void* const from = is_out ? copy.device : copy.host;
    const std::size_t to_pitch = is_out ? copy.host_pitch : copy.device_pitch;
    const std::size_t from_pitch = is_out ? copy.device_pitch : copy.host_pitch;
    if (to_pitch == copy.width && from_pitch == copy.width) {
      Check(cudaMemcpyAsync(to, from, copy.width * copy.rows, kind, way.stream), "cudaMemcpyAsync");
    } else {
      Check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, copy.width, copy.rows, kind, way.stream),
            "cudaMemcpy2DAsync");
    }
    Check(cudaEventRecord(way.copied[place], way.stream), "cudaEventRecord");
  }

  void Await(CopyWay way, std::size_t place) override {
    Check(cudaEventSynchronize(WayOf(way).copied[place]), "cudaEventSynchronize");
  }

  void Clear(void* device, std::size_t bytes) override {
    Use();
    const cudaStream_t stream = WayOf(CopyWay::kIn).stream;
    Check(cudaMemsetAsync(device, 0, bytes, stream), "cudaMemsetAsync");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  void HoldOps() override { Check(cudaStreamWaitEvent(ops_, gathered_, 0), "cudaStreamWaitEvent"); }

 private:
  [[nodiscard]] const Way& WayOf(CopyWay way) const { return ways_[static_cast<std::size_t>(way)]; }
  void Use() const { Check(cudaSetDevice(ordinal_), "cudaSetDevice"); }
  [[nodiscard]] bool Make(cudaStream_t& stream) const {
    return HasMemory(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  [[nodiscard]] bool Make(cudaEvent_t& event, unsigned flags) const {
    return HasMemory(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate");
  }
  [[nodiscard]] bool HasMemory(cudaError_t status, const char* call) const {
    if (status != cudaErrorMemoryAllocation) Check(status, call);
    return status == cudaSuccess;
  }
  void Check(cudaError_t status, const char* call) const {
    if (status == cudaSuccess) [[likely]]
      return;
    const std::string copy = std::string("a copy of blocks (") + call + ")";
    fail_({.call = copy, .error = cudaGetErrorString(status), .device = name_, .batch = {}});
    std::abort();  // fail_ does not return
  }

  const int ordinal_;
  const std::string name_;
  void (*const fail_)(const DeviceFailure& failure);
  const cudaStream_t ops_;
  cudaStream_t gathers_ = nullptr;
  cudaEvent_t gathered_ = nullptr;  // the latest gather
  std::array<Way, kCopyWays> ways_;
};

}  // namespace

std::unique_ptr<CopyStreams> OpenCopyStreamsCuda(Device& device) {
  auto streams = std::make_unique<CudaCopyStreams>(CudaDevice::Of(device));
  if (streams->Create()) return streams;
  cudaGetLastError();  // clears the error, which is handled here
  return nullptr;
}

void* PinCuda(Device& device, std::size_t bytes) {
  void* memory = nullptr;
  const CudaDevice& cuda = CudaDevice::Of(device);
  return cuda.HasMemory(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc") ? memory : nullptr;
}

// Devices may be closed by then; failures at the end have no effect.
void UnpinCuda(void* memory) { cudaFreeHost(memory); }

}  // namespace roost::kernels

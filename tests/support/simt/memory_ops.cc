#include "tests/support/simt/memory_ops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "tests/support/simt/simt_device.h"

namespace roost::simt {
namespace {

Result<kernels::Device*> Open(const kernels::DeviceOptions& options) {
  return static_cast<kernels::Device*>(std::make_unique<Device>(options.ordinal).release());
}

void Close(kernels::Device* device) { const std::unique_ptr<Device> owned(static_cast<Device*>(device)); }

void* Allocate(kernels::Device& device, std::size_t bytes) {
  Device::Of(device).CheckNotRecording("an allocation");
  constexpr std::size_t kAlignment = 256;  // as CUDA's
  void* memory = nullptr;
  return ::posix_memalign(&memory, kAlignment, std::max<std::size_t>(bytes, 1)) == 0 ? memory : nullptr;
}

void Release(kernels::Device& /*device*/, void* memory) { std::free(memory); }

void BeginReadback(kernels::Device& device, const void* from, std::size_t bytes) {
  Device::Of(device).CheckNotRecording("a readback");
  Device::Of(device).readbacks().Begin(from, bytes);
}

void EndReadback(kernels::Device& device, void* to) { Device::Of(device).readbacks().End(to); }

void Copy(kernels::Device& device, void* to, const void* from, std::size_t bytes) {
  Device::Of(device).CheckNotRecording("a copy");
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Fail(kernels::Device& /*device*/, std::string_view call, std::string_view error) {
  kernels::EndOnDeviceFailure({.call = call, .error = error, .device = "simt", .batch = {}});
}

void Upload(kernels::Device& device, void* to, std::span<const kernels::HostPiece> pieces) {
  Device::Of(device).CheckNotRecording("an upload");
  kernels::Gather(pieces, to);
}

}  // namespace

kernels::OpTable MemoryOps() {
  kernels::OpTable ops;
  ops.name = "simt";
  ops.open = Open;
  ops.close = Close;
  ops.fail = Fail;
  ops.allocate = Allocate;
  ops.release = Release;
  ops.copy_to_device = Copy;
  ops.upload = Upload;
  ops.reserve_uploads = [](kernels::Device& /*device*/, std::size_t /*bytes*/) { return true; };
  ops.copy_to_host = Copy;
  ops.begin_readback = BeginReadback;
  ops.end_readback = EndReadback;
  ops.begin_recording = [](kernels::Device& device) { Device::Of(device).BeginRecording(); };
  ops.end_recording = [](kernels::Device& device) { return Device::Of(device).EndRecording(); };
  ops.replay = [](kernels::Device& device, const kernels::Recording& recording) {
    Device::Of(device).Replay(recording);
  };
  return ops;
}

}  // namespace roost::simt

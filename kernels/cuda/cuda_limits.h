// The CUDA backend's requirements on a device. Needs no CUDA headers, so that tests run without CUDA.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/base/check.h"

namespace roost::kernels {

// The most shared memory of a block, declared by the kernel and dynamic together. It is the least that devices from
// kMinCudaMajor on allow on request: sm_86, sm_89 and sm_120 have it; sm_80 has 163 KiB and sm_90 227.
inline constexpr std::uint32_t kMaxSharedBytes = 99 * 1024;

// The widest row of RMSNorm: it lies in shared memory as f32, beside the sums of the block's 32 warps.
inline constexpr std::uint32_t kMaxNormedWidth = (kMaxSharedBytes - 32 * sizeof(float)) / sizeof(float);

// The first with bf16 tensor cores and asynchronous copies.
inline constexpr int kMinCudaMajor = 8;

struct CudaDeviceLimits {
  int major = 0;  // of the compute capability
  int minor = 0;
  std::size_t shared_bytes = 0;  // per block, on request
};

// The reason why the kernels can not run on such a device, with what it has and what they need; empty if they can.
[[nodiscard]] inline std::string WhyUnusable(const CudaDeviceLimits& limits) {
  if (limits.major < kMinCudaMajor) {
    return fmt::format("it has compute capability {}.{}, and the kernels need {}.0", limits.major, limits.minor,
                       kMinCudaMajor);
  }
  if (limits.shared_bytes < kMaxSharedBytes) {
    return fmt::format("its blocks have {} bytes of shared memory, and the kernels need {}", limits.shared_bytes,
                       kMaxSharedBytes);
  }
  return {};
}

// The dynamic shared memory that the device has granted to each kernel.
class SharedAllowances {
 public:
  // The bytes that every kernel gets without a request, declared and dynamic together.
  static constexpr std::uint32_t kWithoutAsking = 48 * 1024;

  // Call it before the kernel's first launch, with the size that the kernel declares.
  void Declare(const void* kernel, std::uint32_t bytes) { kernels_[kernel].declared = bytes; }

  // For a launch with this many dynamic bytes. True when the caller must ask the device, because the kernel needs more
  // than it was granted; from then on it counts as granted.
  [[nodiscard]] bool Raise(const void* kernel, std::uint32_t bytes) {
    if (bytes == 0) return false;
    const auto found = kernels_.find(kernel);
    ROOST_CHECK(found != kernels_.end(), "a kernel that was not loaded");
    Kernel& known = found->second;
    ROOST_CHECK(known.declared + bytes <= kMaxSharedBytes, "{} + {} bytes of shared memory", known.declared, bytes);
    if (known.declared + bytes <= kWithoutAsking || bytes <= known.allowed) return false;
    known.allowed = bytes;
    return true;
  }

 private:
  struct Kernel {
    std::uint32_t declared = 0;
    std::uint32_t allowed = 0;
  };
  std::map<const void*, Kernel> kernels_;
};

}  // namespace roost::kernels

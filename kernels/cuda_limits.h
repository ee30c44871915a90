// What the CUDA backend's kernels require of a device. Without CUDA's headers: it is tested where there is no CUDA.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/base/check.h"

namespace roost::kernels {

// Shared memory of a block, what the kernel declares and what its launch brings together. No kernel has more: the least
// that a device from kLeastCudaMajor on allows one that asks for it, which is what sm_86, sm_89 and sm_120 have; sm_80
// has 163 KiB and sm_90 227.
inline constexpr std::uint32_t kMaxSharedBytes = 99 * 1024;

// The widest row of RMSNorm, which lies in shared memory as f32 beside the sums of the block's 32 warps.
inline constexpr std::uint32_t kMaxNormedWidth = (kMaxSharedBytes - 32 * sizeof(float)) / sizeof(float);

// Of bf16 tensor cores and asynchronous copies.
inline constexpr int kLeastCudaMajor = 8;

struct CudaDeviceLimits {
  int major = 0;  // of the compute capability
  int minor = 0;
  std::size_t shared_bytes = 0;  // of a block that asks for it
};

// Why the kernels can not run on such a device, with what it has and what they need; empty where they can.
[[nodiscard]] inline std::string WhyUnusable(const CudaDeviceLimits& limits) {
  if (limits.major < kLeastCudaMajor) {
    return fmt::format("it has compute capability {}.{}, and the kernels need {}.0", limits.major, limits.minor,
                       kLeastCudaMajor);
  }
  if (limits.shared_bytes < kMaxSharedBytes) {
    return fmt::format("its blocks have {} bytes of shared memory, and the kernels need {}", limits.shared_bytes,
                       kMaxSharedBytes);
  }
  return {};
}

// How much dynamic shared memory the kernels of a device have been allowed.
class SharedAllowances {
 public:
  // What any kernel has without being allowed more, declared and dynamic together.
  static constexpr std::uint32_t kWithoutAsking = 48 * 1024;

  // Comes before the kernel's first launch: what it declares.
  void Declare(const void* kernel, std::uint32_t bytes) { kernels_[kernel].declared = bytes; }

  // For a launch with so many dynamic bytes. True where the device must be asked: the kernel needs more than it has
  // been allowed, and now counts as allowed it.
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

// The plain copy of a device's runtime within its memory: the bandwidth that kernels are compared with. It bypasses the
// op table, whose copies are our own kernels.
#pragma once

#include <cstddef>

namespace roost::bench {

// Median seconds to copy `bytes` within the memory of CUDA device 0, or between it and pinned memory, by the device's
// own clock. Requires a build with a CUDA toolkit, and a device.
[[nodiscard]] double CudaCopySeconds(void* to, const void* from, std::size_t bytes);

// The same in the host's memory, where the SIMT shim computes.
[[nodiscard]] double HostCopySeconds(void* to, const void* from, std::size_t bytes);

}  // namespace roost::bench

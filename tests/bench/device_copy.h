// The plain copy that a device's run time makes within its memory: the bandwidth that kernels are compared with. It
// goes past the op table, whose copies are kernels of ours.
#pragma once

#include <cstddef>

namespace roost::bench {

// Median seconds to copy `bytes` from one place of the memory of CUDA device 0 to another, by the device's own clock.
// Only where this was built with a CUDA toolkit and there is a device.
[[nodiscard]] double CudaCopySeconds(void* to, const void* from, std::size_t bytes);

// The same of the host's memory, which is what the SIMT shim computes in.
[[nodiscard]] double HostCopySeconds(void* to, const void* from, std::size_t bytes);

}  // namespace roost::bench

// The use of a device's memory by all processes.
#pragma once

#include <cstddef>

namespace roost::kernels {

struct MemoryUse {
  std::size_t free_bytes = 0;  // could be allocated now
  std::size_t total_bytes = 0;
};

}  // namespace roost::kernels

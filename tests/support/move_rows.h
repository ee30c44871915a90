// A copy of blocks by the processor, for doubles whose device memory is the host's.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/copy_streams.h"

namespace roost::testing_support {

inline void MoveRows(kernels::CopyWay way, const kernels::RowsCopy& copy) {
  const bool is_out = way == kernels::CopyWay::kOut;
  for (std::size_t row = 0; row < copy.rows; ++row) {
    auto* const device = static_cast<std::byte*>(copy.device) + row * copy.device_pitch;
    auto* const host = static_cast<std::byte*>(copy.host) + row * copy.host_pitch;
    std::memcpy(is_out ? host : device, is_out ? device : host, copy.width);
  }
}

}  // namespace roost::testing_support

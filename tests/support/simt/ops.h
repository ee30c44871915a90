// An op table over the shim's device without its ops: a test fills in those that it calls.
#pragma once

#include "kernels/ops.h"

namespace roost::simt {

// Its memory is plain memory, exactly as much as asked for. The ordinal of DeviceOptions is the seed of its device.
[[nodiscard]] kernels::OpTable MemoryOps();

}  // namespace roost::simt

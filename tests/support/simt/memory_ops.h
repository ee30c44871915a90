// An op table over the shim's device without its ops: a test adds the ops that it calls.
#pragma once

#include "kernels/ops.h"

namespace roost::simt {

// Its memory is plain memory, exactly as much as requested. DeviceOptions' ordinal is the seed of its device.
[[nodiscard]] kernels::OpTable MemoryOps();

}  // namespace roost::simt

// The op table of the CUDA backend with its kernels behind the SIMT shim: it runs the same code as a device. Memory is
// plain memory, and products, which cuBLASLt computes on a device, are the reference's.
#pragma once

#include "kernels/ops.h"

namespace roost::simt {

[[nodiscard]] const kernels::OpTable& SimtOps();

}  // namespace roost::simt

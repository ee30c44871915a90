// The op table of the CUDA backend with its kernels behind the SIMT shim: what computes is the code that a device runs.
// Memory is plain memory, and products, which are cuBLASLt's on a device, are the reference's.
#pragma once

#include "kernels/ops.h"

namespace roost::simt {

[[nodiscard]] const kernels::OpTable& SimtOps();

}  // namespace roost::simt

// The CUDA backend in tests: its kernels behind the SIMT shim (tested_ops_simt.cc), or the built backend on a device
// (tested_ops_gpu.cc). The same tests run on both.
#pragma once

#include "common/base/result.h"
#include "kernels/ops.h"

namespace roost::kernels {

// kUnavailable without a device: then a test skips. The table is never freed.
[[nodiscard]] Result<const OpTable*> TestedOps();

}  // namespace roost::kernels

// The CUDA backend's side of the op table: what backend_module.h hands out.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/ops.h"

namespace roost::kernels {

// bf16 with f32 sums. Rows' results depend on the batch's size, but on nothing else of it.
[[nodiscard]] const OpTable& CudaOps();

// All that CUDA finds, also those that can not be used. kUnavailable when there is no driver or no device, with CUDA's
// reason.
[[nodiscard]] Result<std::vector<DeviceInfo>> ListCudaDevices();

}  // namespace roost::kernels

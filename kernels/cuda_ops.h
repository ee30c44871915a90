// The CUDA backend's op table, which backend_module.h exports.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/ops.h"

namespace roost::kernels {

// bf16 with f32 sums. A row's result depends on the batch's size, but not on the other rows.
[[nodiscard]] const OpTable& CudaOps();

// All devices that CUDA finds, including unusable ones. kUnavailable when there is no driver or no device, with CUDA's
// reason.
[[nodiscard]] Result<std::vector<DeviceInfo>> ListCudaDevices();

}  // namespace roost::kernels

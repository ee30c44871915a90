// A CUDA backend for roost-worker --cuda-module without a device: the kernels behind the SIMT shim, on devices that
// compute as late as they may (late_ops.h). So a daemon takes the device's way of blocks, and serves slowly. It is
// never installed.
#include "kernels/backend_module.h"

#include <cstdint>

#include "tests/support/late_ops.h"
#include "tests/support/simt/simt_ops.h"

namespace roost::simt {
namespace {

constexpr std::uint32_t kDevices = 4;

Result<std::vector<kernels::DeviceInfo>> ListDevices() {
  std::vector<kernels::DeviceInfo> devices;
  for (std::uint32_t ordinal = 0; ordinal < kDevices; ++ordinal) {
    devices.push_back({.ordinal = ordinal,
                       .name = "SIMT shim",
                       .architecture = "sm_90",
                       .memory_bytes = std::size_t{1} << 30U,
                       .unusable = {}});
  }
  return devices;
}

}  // namespace
}  // namespace roost::simt

extern "C" __attribute__((visibility("default"))) const roost::kernels::BackendModule* RoostBackendModule() {
  static const roost::kernels::BackendModule module{.version = ROOST_VERSION_TEXT,
                                                    .ops = &roost::testing_support::LateOps<roost::simt::SimtOps>(),
                                                    .list_devices = roost::simt::ListDevices};
  return &module;
}

// A backend in its own shared object, so that its libraries are needed only where it runs. The object exports one
// function with the name kBackendModuleEntry and the type BackendModuleEntry. It must come from the same build as the
// program that opens it; its version and the size of its op table show that. It stays open until the process ends.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "kernels/device.h"
#include "kernels/ops.h"

namespace roost::kernels {

struct BackendModule {
  std::size_t op_table_bytes = sizeof(OpTable);  // first, so that any version can read it
  std::string_view version;
  const OpTable* ops = nullptr;
  // The devices found, by ordinal. kUnavailable when there are none, with the reason.
  Result<std::vector<DeviceInfo>> (*list_devices)() = nullptr;
};

using BackendModuleEntry = const BackendModule*();
inline constexpr const char* kBackendModuleEntry = "RoostBackendModule";

}  // namespace roost::kernels

// A backend in a shared object of its own, so that what it links to need not be there when another one runs. The object
// exports one function with the name kBackendModuleEntry and the type BackendModuleEntry; it is built with the program
// that opens it, and says so by its version and the size of its op table. It stays open until the process ends.
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
  // The devices that are there, by their ordinals. kUnavailable when there are none, with the reason.
  Result<std::vector<DeviceInfo>> (*list_devices)() = nullptr;
};

using BackendModuleEntry = const BackendModule*();
inline constexpr const char* kBackendModuleEntry = "RoostBackendModule";

}  // namespace roost::kernels

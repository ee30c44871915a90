// Opens a backend's shared object; see kernels/backend_module.h.
#pragma once

#include <filesystem>

#include "common/base/result.h"
#include "kernels/backend_module.h"

namespace roost::worker {

// libroost_cuda.so where packages and images put it, ../lib/roost seen from the running program's folder, if it is
// there; otherwise beside the program.
[[nodiscard]] std::filesystem::path DefaultCudaModulePath();

// The module stays open until the process ends. kUnavailable when the file, a library that it needs or an op is
// missing, or when it was built for another program; the error says which.
[[nodiscard]] Result<const kernels::BackendModule*> OpenBackendModule(const std::filesystem::path& path);

}  // namespace roost::worker

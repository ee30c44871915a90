#include "worker/backend/backend_module_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <system_error>

#include "common/config/config.h"

namespace roost::worker {
namespace {

using kernels::BackendModule;

constexpr const char* kFileName = "libroost_cuda.so";

template <typename... Args>
Error Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kUnavailable, fmt::format(format, std::forward<Args>(args)...), "backend"};
}

// A table with a missing op would crash at the first batch that needs it.
bool HasEveryOp(const kernels::OpTable& ops) {
  return ops.open != nullptr && ops.close != nullptr && ops.preferred_dtype != nullptr &&
         ops.supports_dtype != nullptr && ops.activation_dtype != nullptr && ops.begin_batch != nullptr &&
         ops.fail != nullptr && ops.allocate != nullptr && ops.release != nullptr && ops.memory_use != nullptr &&
         ops.check_model != nullptr && ops.copy_to_device != nullptr && ops.upload != nullptr &&
         ops.reserve_uploads != nullptr && ops.copy_to_host != nullptr && ops.begin_readback != nullptr &&
         ops.end_readback != nullptr && ops.gather_embedding != nullptr && ops.rms_norm != nullptr &&
         ops.prepare_matmul != nullptr && ops.matmul != nullptr && ops.rope_angles != nullptr &&
         ops.rope_to_cache != nullptr && ops.attention_profile != nullptr && ops.attention != nullptr &&
         ops.silu_mul != nullptr && ops.copy_block_rows != nullptr && ops.gather_blocks != nullptr &&
         ops.scatter_blocks != nullptr && ops.sample != nullptr && ops.place_sampled != nullptr &&
         ops.connect != nullptr && ops.all_reduce != nullptr && ops.gather_columns != nullptr &&
         ops.broadcast != nullptr;
}

Result<void> CheckBuild(const BackendModule& module, const std::filesystem::path& path) {
  if (module.op_table_bytes != sizeof(kernels::OpTable)) {
    return Unavailable("{} is from another build: its op table has {} bytes, not {}", path.string(),
                       module.op_table_bytes, sizeof(kernels::OpTable));
  }
  if (module.version != Version()) {
    return Unavailable("{} has version {}, this program has {}", path.string(), module.version, Version());
  }
  if (!HasEveryOp(*module.ops)) return Unavailable("{} lacks an op that models need", path.string());
  return {};
}

}  // namespace

std::filesystem::path DefaultCudaModulePath() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::filesystem::path installed = folder.parent_path() / "lib/roost" / kFileName;
  return std::filesystem::exists(installed, error) ? installed : folder / kFileName;
}

Result<const BackendModule*> OpenBackendModule(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Unavailable("{} is not there: this build has no CUDA backend", path.string());
  }
  void* object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return Unavailable("{}", ::dlerror());  // NOLINT(concurrency-mt-unsafe): at start
  void* entry = ::dlsym(object, kernels::kBackendModuleEntry);
  if (entry == nullptr) return Unavailable("{} is not a backend of this program", path.string());
  const BackendModule* module = reinterpret_cast<kernels::BackendModuleEntry*>(entry)();
  ROOST_RETURN_IF_ERROR(CheckBuild(*module, path));
  return module;
}

}  // namespace roost::worker

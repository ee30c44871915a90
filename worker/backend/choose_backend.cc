#include "worker/backend/choose_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
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
  const bool has_copies = ops.open_copy_streams != nullptr && ops.pin != nullptr && ops.unpin != nullptr;
  if (!has_copies && !ops.has_host_memory) return false;
  return ops.open != nullptr && ops.close != nullptr && ops.preferred_dtype != nullptr &&
         ops.supports_dtype != nullptr && ops.activation_dtype != nullptr && ops.arithmetic != nullptr &&
         ops.begin_batch != nullptr && ops.fail != nullptr && ops.allocate != nullptr && ops.release != nullptr &&
         ops.memory_use != nullptr && ops.check_model != nullptr && ops.copy_to_device != nullptr &&
         ops.upload != nullptr && ops.reserve_uploads != nullptr && ops.copy_to_host != nullptr &&
         ops.begin_readback != nullptr && ops.end_readback != nullptr && ops.gather_embedding != nullptr &&
         ops.rms_norm != nullptr && ops.prepare_matmul != nullptr && ops.matmul != nullptr &&
         ops.rope_angles != nullptr && ops.rope_to_cache != nullptr && ops.attention_profile != nullptr &&
         ops.attention != nullptr && ops.silu_mul != nullptr && ops.copy_block_rows != nullptr &&
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

namespace {

using kernels::DeviceInfo;

BackendChoice Cpu(std::uint32_t rank_count, std::string cuda) {
  return {.ops = &kernels::CpuOps(),
          .ordinals = std::vector<std::uint32_t>(rank_count, 0),
          .device = rank_count == 1 ? "cpu" : fmt::format("cpu, {} ranks", rank_count),
          .cuda = std::move(cuda)};
}

std::string Describe(const DeviceInfo& device) {
  return fmt::format("cuda:{} {}, {}, {} GiB{}{}", device.ordinal, device.name, device.architecture,
                     device.memory_bytes >> 30U, device.unusable.empty() ? "" : ", not usable: ", device.unusable);
}

std::string Describe(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& device : devices) text += (text.empty() ? "" : "; ") + Describe(device);
  return text;
}

Error Missing(const BackendRequest& request, std::uint32_t ordinal, const std::vector<DeviceInfo>& devices) {
  const std::string found = fmt::format("there is no CUDA device {}; found: {}", ordinal, Describe(devices));
  if (ordinal == request.device) return {ErrorCode::kUnavailable, found, "device"};
  return {ErrorCode::kUnavailable,
          fmt::format("{} ranks from device {} on: {}", request.rank_count, request.device, found), "tensor_parallel"};
}

Error Unusable(const DeviceInfo& device) {
  return {ErrorCode::kUnavailable, fmt::format("cuda:{} {}: {}", device.ordinal, device.name, device.unusable),
          "device"};
}

Result<CudaDevices> FindCudaDevices(const std::filesystem::path& path) {
  ROOST_ASSIGN_OR_RETURN(const kernels::BackendModule* module,
                         OpenBackendModule(path.empty() ? DefaultCudaModulePath() : path));
  ROOST_ASSIGN_OR_RETURN(std::vector<DeviceInfo> devices, module->list_devices());
  return CudaDevices{module->ops, std::move(devices)};
}

}  // namespace

Result<BackendKind> ParseBackendKind(std::string_view name) {
  if (name == "auto") return BackendKind::kAuto;
  if (name == "cpu") return BackendKind::kCpu;
  if (name == "cuda") return BackendKind::kCuda;
  return InvalidArgument("backend", "must be auto, cpu or cuda, is '{}'", name);
}

Result<BackendChoice> ChooseBackend(const BackendRequest& request) {
  if (request.kind == BackendKind::kCpu) return Cpu(request.rank_count, "");
  return ChooseAmong(request, FindCudaDevices(request.cuda_module));
}

Result<BackendChoice> ChooseAmong(const BackendRequest& request, const Result<CudaDevices>& found) {
  if (request.kind == BackendKind::kCpu) return Cpu(request.rank_count, "");
  if (!found.ok()) {
    if (request.kind == BackendKind::kAuto) return Cpu(request.rank_count, "none: " + found.error().message);
    return found.error();
  }
  const std::vector<DeviceInfo>& devices = found->devices;
  std::vector<DeviceInfo> taken;
  BackendChoice choice{.ops = found->ops, .ordinals = {}, .device = {}, .cuda = Describe(devices)};
  for (std::uint32_t rank = 0; rank < request.rank_count; ++rank) {
    const std::uint32_t ordinal = request.device + rank;
    const auto wanted = std::find_if(devices.begin(), devices.end(),
                                     [&](const DeviceInfo& device) { return device.ordinal == ordinal; });
    if (wanted == devices.end()) return Missing(request, ordinal, devices);
    if (!wanted->unusable.empty()) {
      if (request.kind == BackendKind::kAuto) return Cpu(request.rank_count, Describe(devices));
      return Unusable(*wanted);
    }
    choice.ordinals.push_back(ordinal);
    taken.push_back(*wanted);
  }
  choice.device = Describe(taken);
  return choice;
}

}  // namespace roost::worker

#include "worker/backend/choose_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "worker/backend/backend_module_file.h"

namespace roost::worker {
namespace {

using kernels::DeviceInfo;

BackendChoice Cpu(std::string cuda) {
  return {.ops = &kernels::CpuOps(), .ordinal = 0, .device = "cpu", .cuda = std::move(cuda)};
}

std::string Describe(const DeviceInfo& device) {
  return fmt::format("cuda:{} {}, {}, {} GiB", device.ordinal, device.name, device.architecture,
                     device.memory_bytes >> 30U);
}

std::string Describe(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& device : devices) text += (text.empty() ? "" : "; ") + Describe(device);
  return text;
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
  if (request.kind == BackendKind::kCpu) return Cpu("");
  return ChooseAmong(request, FindCudaDevices(request.cuda_module));
}

Result<BackendChoice> ChooseAmong(const BackendRequest& request, const Result<CudaDevices>& found) {
  if (request.kind == BackendKind::kCpu) return Cpu("");
  if (!found.ok()) {
    if (request.kind == BackendKind::kAuto) return Cpu("none: " + found.error().message);
    return found.error();
  }
  const std::vector<DeviceInfo>& devices = found->devices;
  const auto wanted = std::find_if(devices.begin(), devices.end(),
                                   [&](const DeviceInfo& device) { return device.ordinal == request.device; });
  if (wanted == devices.end()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("there is no CUDA device {}; found: {}", request.device, Describe(devices)), "device"};
  }
  return BackendChoice{
      .ops = found->ops, .ordinal = request.device, .device = Describe(*wanted), .cuda = Describe(devices)};
}

}  // namespace roost::worker

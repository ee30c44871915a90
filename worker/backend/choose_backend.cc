#include "worker/backend/choose_backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "worker/backend/backend_module_file.h"

namespace roost::worker {
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

// Chooses the device or devices on which a worker computes.
//
//   cpu    the CPU; no CUDA library is opened
//   cuda   the CUDA device with the given number and the ones after it, one per rank; an error if one is missing
//   auto   as cuda if there is a CUDA device and the kernels run on the wanted ones, else the CPU
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "kernels/backend_module.h"
#include "kernels/ops.h"

namespace roost::worker {

// Opens a backend's shared object; see kernels/backend_module.h.

// libroost_cuda.so where packages and images put it, ../lib/roost seen from the running program's folder, if it is
// there; otherwise beside the program.
[[nodiscard]] std::filesystem::path DefaultCudaModulePath();

// The module stays open until the process ends. kUnavailable when the file, a library that it needs or an op is
// missing, or when it was built for another program; the error says which.
[[nodiscard]] Result<const kernels::BackendModule*> OpenBackendModule(const std::filesystem::path& path);

enum class BackendKind : std::uint8_t { kAuto, kCpu, kCuda };
[[nodiscard]] Result<BackendKind> ParseBackendKind(std::string_view name);

struct BackendRequest {
  BackendKind kind = BackendKind::kAuto;
  std::uint32_t device = 0;                // number of the first CUDA device
  std::uint32_t rank_count = 1;            // devices that compute one model; on the CPU all ranks share it
  std::filesystem::path cuda_module = {};  // empty: the file beside the program
};

struct BackendChoice {
  const kernels::OpTable* ops = nullptr;
  std::vector<std::uint32_t> ordinals;  // device of each rank; see DeviceOptions
  // Descriptions for logs. `device` describes the chosen devices: "cpu", "cpu, 2 ranks" or "cuda:0 NVIDIA H100 80GB
  // HBM3, sm_90, 79 GiB; cuda:1 …". `cuda` describes all CUDA devices that were found, or says why there are none; it
  // is empty when CUDA was not tried.
  std::string device;
  std::string cuda;
};

// Opens the CUDA module unless the kind is kCpu. kUnavailable, with the reason, when the wanted device is missing or
// can not be used.
[[nodiscard]] Result<BackendChoice> ChooseBackend(const BackendRequest& request);

// The same decision for known CUDA devices and a known op table. Pure.
struct CudaDevices {
  const kernels::OpTable* ops = nullptr;
  std::vector<kernels::DeviceInfo> devices;
};
[[nodiscard]] Result<BackendChoice> ChooseAmong(const BackendRequest& request, const Result<CudaDevices>& found);

}  // namespace roost::worker

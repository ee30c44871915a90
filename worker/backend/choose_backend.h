// Chooses the device, or the several devices, on which a worker computes.
//
//   cpu    the CPU; nothing of CUDA is opened
//   cuda   the CUDA device with the wanted number, and as many behind it as are wanted; an error where one is missing
//   auto   as cuda where a CUDA device is found and the kernels run on the wanted ones, else the CPU
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "kernels/ops.h"

namespace roost::worker {

enum class BackendKind : std::uint8_t { kAuto, kCpu, kCuda };
[[nodiscard]] Result<BackendKind> ParseBackendKind(std::string_view name);

struct BackendRequest {
  BackendKind kind = BackendKind::kAuto;
  std::uint32_t device = 0;                // of the CUDA devices, the first
  std::uint32_t rank_count = 1;            // devices that compute one model; on the CPU it is for all of them
  std::filesystem::path cuda_module = {};  // empty: the one beside the program
};

struct BackendChoice {
  const kernels::OpTable* ops = nullptr;
  std::vector<std::uint32_t> ordinals;  // of the ranks; see DeviceOptions
  // Descriptions for logs: of the chosen device, like "cpu", "cpu, 2 ranks" or "cuda:0 NVIDIA H100 80GB HBM3, sm_90, 79
  // GiB; cuda:1 …"; and of all CUDA devices that were found, or why there are none. The latter is empty when CUDA was
  // not tried.
  std::string device;
  std::string cuda;
};

// Opens the CUDA module unless the kind is kCpu. kUnavailable, with the reason, when the wanted device is missing or
// can not be used.
[[nodiscard]] Result<BackendChoice> ChooseBackend(const BackendRequest& request);

// The same, once it is known which CUDA devices there are and what computes on them. Pure.
struct CudaDevices {
  const kernels::OpTable* ops = nullptr;
  std::vector<kernels::DeviceInfo> devices;
};
[[nodiscard]] Result<BackendChoice> ChooseAmong(const BackendRequest& request, const Result<CudaDevices>& found);

}  // namespace roost::worker

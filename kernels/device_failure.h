// A device that fails for good (a lost GPU, an illegal address, a failed product) ends the process: its results can not
// be trusted, and its calls may block. The supervisor starts another worker; routers continue the requests elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace roost::kernels {

// The work of the ops between two begin_batch calls.
struct BatchShape {
  std::uint32_t request_count = 0;
  std::uint32_t token_count = 0;
};

struct DeviceFailure {
  std::string_view call;    // the library function or the kernel: "cudaStreamSynchronize"
  std::string_view error;   // its error, in words
  std::string_view device;  // "cuda:0 (NVIDIA H100)"
  // The batch in which the device failed. Calls are asynchronous: the failure may show in a later call of the batch, or
  // of the next one, which the host begins while this one is computed.
  BatchShape batch;
};

// EX_OSERR of sysexits.h.
inline constexpr int kDeviceFailureExitCode = 71;

// One line, without a newline.
[[nodiscard]] std::string Describe(const DeviceFailure& failure);

// Logs the line as an error and ends the process with kDeviceFailureExitCode, from any thread, without destructors,
// because these would call the device again. When several threads fail at the same time, one logs, and the others
// block.
[[noreturn]] void EndOnDeviceFailure(const DeviceFailure& failure);

}  // namespace roost::kernels

#include "kernels/device.h"

#include <fmt/core.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "common/base/log.h"

namespace roost::kernels {

std::string Describe(const DeviceFailure& failure) {
  if (!failure.batch) return fmt::format("{} failed on {}: {}", failure.call, failure.device, failure.error);
  return fmt::format("{} failed on {} in a batch of {} requests, {} tokens: {}", failure.call, failure.device,
                     failure.batch->request_count, failure.batch->token_count, failure.error);
}

void EndOnDeviceFailure(const DeviceFailure& failure) {
  // Devices that compute together fail together: the first one's line tells the cause.
  static std::atomic<bool> ending{false};
  while (ending.exchange(true)) ::pause();
  LogError("the device failed, the worker ends: " + Describe(failure));
  FlushLog();
  std::_Exit(kDeviceFailureExitCode);
}

}  // namespace roost::kernels

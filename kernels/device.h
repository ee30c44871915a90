// A device: the memory that ops work on, and the threads or streams that they run on. Opaque to callers; each backend
// defines its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/device_failure.h"

namespace roost::kernels {

struct DeviceOptions {
  std::uint32_t thread_count = 1;  // compute threads of the CPU; they do not change results
  std::uint32_t ordinal = 0;       // the number among the backend's devices; the CPU has only 0
  // If set, the CPU computes with fewer threads while others keep its processors busy, and calls this on the computing
  // thread with the number in use whenever it has changed.
  std::function<void(std::uint32_t in_use)> on_threads = {};
  // Ends the process. A parameter, because a shared object has its own copy of the log.
  void (*fail)(const DeviceFailure& failure) = EndOnDeviceFailure;
};

// A device that the backend found.
struct DeviceInfo {
  std::uint32_t ordinal = 0;
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string architecture;  // "sm_90"
  std::size_t memory_bytes = 0;
  std::string unusable = {};  // the reason why it can not be opened, with what it has and needs; empty: it can
};

// Limits of readbacks (see the op table): how many may be pending, and of how many bytes each.
inline constexpr std::size_t kMaxReadbacks = 2;
inline constexpr std::size_t kMaxReadbackBytes = std::size_t{1} << 20U;

// Opened and closed through the op table. Not thread-safe: one thread calls its ops, and they take effect in the order
// of the calls. Devices share nothing.
class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 protected:
  Device() = default;
  ~Device() = default;
};

}  // namespace roost::kernels

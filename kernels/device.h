// A device: the memory that ops work on and the threads or streams that they run on. Opaque to callers; each backend
// has its own behind it.
#pragma once

#include <cstdint>

namespace roost::kernels {

struct DeviceOptions {
  std::uint32_t thread_count = 1;  // compute threads of the CPU; results do not depend on it
};

// Opened and closed through the op table. Not thread-safe: one thread calls ops on it, in the order in which they take
// effect. Devices share nothing.
class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 protected:
  Device() = default;
  ~Device() = default;
};

}  // namespace roost::kernels

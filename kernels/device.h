// A device: the memory that ops work on, and the threads or streams that they run on. Opaque to callers; each backend
// defines its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace roost::kernels {

// A device that fails for good (a lost GPU, an illegal address, a failed product) ends the process: its results can not
// be trusted, and its calls may block. The supervisor starts another worker; routers continue the requests elsewhere.

// The work of the ops between two begin_batch calls.
struct BatchShape {
  std::uint32_t request_count = 0;
  std::uint32_t token_count = 0;
};

struct DeviceFailure {
  std::string_view call;    // the library function or the kernel: "cudaStreamSynchronize"
  std::string_view error;   // its error, in words
  std::string_view device;  // "cuda:0 (NVIDIA H100)"
  // The batch in which the device failed; nothing for what happens beside batches. Calls are asynchronous: the failure
  // may show in a later call of the batch, or of the next one, which the host begins while this one is computed.
  std::optional<BatchShape> batch;
};

// EX_OSERR of sysexits.h.
inline constexpr int kDeviceFailureExitCode = 71;

// One line, without a newline.
[[nodiscard]] std::string Describe(const DeviceFailure& failure);

// Logs the line as an error and ends the process with kDeviceFailureExitCode, from any thread, without destructors,
// because these would call the device again. When several threads fail at the same time, one logs, and the others
// block.
[[noreturn]] void EndOnDeviceFailure(const DeviceFailure& failure);

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

// Recorded ops of a device that run as one: starting them one by one can take longer than computing them.

// An op table's end_recording makes it; destroy it before the device. It holds the ops' arguments: the memory that they
// point to must exist at each replay; its content may have changed.
class Recording {
 public:
  virtual ~Recording() = default;
};

}  // namespace roost::kernels

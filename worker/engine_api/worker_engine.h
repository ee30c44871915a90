// A worker's interface to the engine that it stands for, beside the host that its links talk to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "kernels/memory_use.h"
#include "worker/engine_api/cache_view_counts.h"
#include "worker/engine_api/engine_host.h"

namespace roost::worker {

// The disk of blocks as routers see it, before the first step.
struct DiskStart {
  std::vector<wire::StoredRun> runs;  // parents before children
  std::uint32_t most_blocks = 0;      // 0: there is no disk
  double bytes_per_second = 0;
  std::uint64_t block_bytes = 0;
};

class WorkerEngine {
 public:
  virtual ~WorkerEngine() = default;

  [[nodiscard]] virtual EngineHost& host() = 0;
  // Fills in the fields of the hello that follow from the engine: sizes, limits and features.
  virtual void Describe(wire::Hello& hello) const = 0;
  // The memory of each GPU, in order, before the first step; none on the CPU or if another process has them.
  [[nodiscard]] virtual std::vector<kernels::MemoryUse> DeviceMemory() const { return {}; }
  [[nodiscard]] virtual DiskStart Disk() { return {}; }
  // Before the end: writes what waits for its disk, as fast as that goes, from now on. True once nothing waits.
  [[nodiscard]] virtual bool WriteOut() { return true; }
};

// Parts of the worker that makes the engine; they outlive it.
struct EngineSurroundings {
  const Clock& clock;
  const wire::Waker& waker;
  // From any thread; of an engine whose events are followed.
  std::function<void(const CacheViewCounts&)> on_view_counts;
};
using MakeEngine = std::function<std::unique_ptr<WorkerEngine>(const EngineSurroundings&)>;

}  // namespace roost::worker

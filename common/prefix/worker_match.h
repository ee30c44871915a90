// The index's answer to a routing decision: the workers that hold a part of a prompt, and how much each holds.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace roost {

// The most workers of one router; their slots are below it.
inline constexpr std::uint32_t kMaxWorkerSlots = 1024;

// A worker's disk holds a second set of blocks. It is one more holder, with a slot of its own above those of workers.
[[nodiscard]] constexpr WorkerSlot DiskOf(WorkerSlot worker) { return WorkerSlot(worker.value() + kMaxWorkerSlots); }
[[nodiscard]] constexpr bool IsDisk(WorkerSlot slot) { return slot.value() >= kMaxWorkerSlots; }
[[nodiscard]] constexpr WorkerSlot WorkerOfDisk(WorkerSlot disk) { return WorkerSlot(disk.value() - kMaxWorkerSlots); }

// The number of leading blocks of a query that a worker, or its disk, holds; at least 1 in a match list.
struct WorkerMatch {
  WorkerSlot worker;
  std::uint32_t block_count = 0;
  std::uint32_t pending_block_count = 0;  // the last ones of these, which are still being computed, or on their way
                                          // from another worker; see PendingPrefixes
  float pending_seconds = 0;              // until those on their way are there; 0: they are being computed
};

}  // namespace roost

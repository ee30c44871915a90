// Blocks that a waiting request gets from this worker's own disk: where its match goes on there, an arrival is begun
// for it, like one that a router orders.
//
// Begun where reading is expected to take less time than computing, and then waited for by the same pace rule (see
// PrefixWaits). At most kMaxRestores at a time; a request beyond them computes, or is served at its turn.
//
// Not thread-safe. What it is given outlives it.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "worker/cache/prefix_cache.h"
#include "worker/disk/disk_source.h"
#include "worker/sched/arrivals.h"
#include "worker/sched/sequence.h"
#include "worker/sched/step_pace.h"

namespace roost::worker {

// However slow, a restore ends then; its requests have long computed the rest.
inline constexpr std::chrono::seconds kRestorePatience{60};

class Restores {
 public:
  // Without `disk` it does nothing.
  Restores(PrefixCache& cache, Arrivals& arrivals, const StepPace& pace, DiskSource* disk)
      : cache_(cache), arrivals_(arrivals), pace_(pace), disk_(disk) {}

  // The sequence's first `matched_count` blocks are in the cache. True if an arrival has begun that brings the next.
  [[nodiscard]] bool Begin(const Sequence& sequence, std::uint32_t matched_count, std::uint32_t wanted_count,
                           Instant now);

 private:
  PrefixCache& cache_;
  Arrivals& arrivals_;
  const StepPace& pace_;
  DiskSource* const disk_;
  std::uint64_t last_id_ = std::uint64_t{1} << 63U;  // far from those of Holds
};

}  // namespace roost::worker

// The time that blocks stay, for metrics: age at eviction, idle time before it, and the gap between one use and the
// next. Short ages under load mean that the pool is too small; gaps say how long retention would have to hold a block.
//
//   stored ──── let go ──────────── found ──── let go ────────────── evicted
//     │            └────── gap ───────┘           └─────── idle ────────┤
//     └────────────────────────────── age ──────────────────────────────┘
//
// A block is used when it is stored, when a request finds it, and when a request releases it. It is idle from its last
// use on. A gap ends when a request finds the block.
//
// Not thread-safe. Every operation is O(1). 8 bytes per block; nothing is allocated after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"
#include "worker/engine_api/residency_counts.h"

namespace roost::worker {

class Residency {
 public:
  explicit Residency(std::uint32_t block_count);

  // `block` became ready.
  void OnStored(BlockId block, Instant now);
  // A request found `block`, which is ready.
  void OnFound(BlockId block, Instant now);
  // A request released `block`, which is ready.
  void OnLetGo(BlockId block, Instant now);
  // `block` was ready and is no longer.
  void OnEvicted(BlockId block, Instant now);

  // Time since `block`, which is ready, became so.
  [[nodiscard]] Duration AgeOf(BlockId block, Instant now) const;

  // The counts since the last call.
  [[nodiscard]] ResidencyCounts Take();

  void Prefetch(BlockId block) const { roost::Prefetch(&times_[block.value()]); }

 private:
  // Milliseconds, modulo 2^32: times of up to 49 days are correct.
  using Millis = std::uint32_t;
  struct Times {
    Millis stored = 0;
    Millis used = 0;
  };

  // Remembers the last bucket, because most blocks of a request have the same time.
  class Recorder {
   public:
    void Add(DurationCounts& counts, Millis millis);

   private:
    Millis millis_ = 0;
    std::size_t bucket_ = 0;
  };

  [[nodiscard]] static Millis MillisOf(Instant instant);

  BigVector<Times> times_;  // by block
  ResidencyCounts counts_;
  Recorder ages_;
  Recorder idle_times_;
  Recorder gaps_;
};

}  // namespace roost::worker

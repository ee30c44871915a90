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

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"

namespace roost::worker {

// Upper bounds of the buckets, inclusive; the same as vLLM's metrics of this kind.
inline constexpr std::array kResidencySeconds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05,  0.1,   0.2,   0.5,    1.0,   2.0,
                                              5.0,   10.0,  20.0,  30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0};

// Counts of durations. buckets[i] counts the times in (bound i-1, bound i]; the last bucket counts those over all
// bounds.
struct DurationCounts {
  std::array<std::uint64_t, kResidencySeconds.size() + 1> buckets{};
  double sum_seconds = 0;

  void Add(Duration duration);
  bool operator==(const DurationCounts&) const = default;
};

struct ResidencyCounts {
  DurationCounts age_at_eviction;
  DurationCounts idle_before_eviction;
  DurationCounts reuse_gap;

  bool operator==(const ResidencyCounts&) const = default;
};

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

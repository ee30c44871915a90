// Tells the writer when readers have let go of what it took away, without locks (epoch-based reclamation; Fraser,
// Practical lock-freedom, 2004, with counters of readers as in sleepable RCU instead of a list of threads).
//
// Readers of an even and of an odd epoch are counted apart. The epoch advances from e to e + 1 only when nobody who
// entered in e - 1 is left, so what was unlinked in epoch e is out of every reader's sight from e + 2 on:
//
//   unlinked in e          nobody of e-1 left          nobody of e left
//   ────────────── e ─────────────────────── e + 1 ─────────────────────── e + 2: reuse or free it
//
// A reader that stays for long delays reuse, and nothing else. Both counters are checked after the unlinking, by
// read-modify-writes: a reader that a check did not count has seen the unlinking, whatever epoch it took itself to be
// in.
//
// Readers: any thread, any number; entering and leaving are one atomic addition each, wait-free. One writer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/rng.h"

namespace roost::router {

// Counts from 1 and stays below 2^48 for any lifetime of a process.
using Epoch = std::uint64_t;

class EpochGate {
 public:
  // What was reachable when it was made stays valid while it lives.
  class Pin {
   public:
    explicit Pin(const EpochGate& gate)
        : readers_(gate.shards_[ShardOfThread()].readers[gate.epoch_.load(std::memory_order_relaxed) % 2]) {
      readers_.fetch_add(1, std::memory_order_acq_rel);
    }
    ~Pin() { readers_.fetch_sub(1, std::memory_order_release); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    std::atomic<std::uint32_t>& readers_;
  };

  // Writer. Advances when it can; costs a few hundred nanoseconds.
  void TryAdvance() {
    const Epoch next = epoch_.load(std::memory_order_relaxed) + 1;
    for (Shard& shard : shards_) {
      if (shard.readers[next % 2].fetch_add(0, std::memory_order_acq_rel) != 0) return;
    }
    epoch_.store(next, std::memory_order_relaxed);
  }

  [[nodiscard]] Epoch now() const { return epoch_.load(std::memory_order_relaxed); }
  // Has every reader let go of what was unlinked in `epoch`?
  [[nodiscard]] bool IsOver(Epoch epoch) const { return now() - epoch >= 2; }

 private:
  static constexpr std::size_t kShardBits = 5;
  static constexpr std::size_t kShardAlignment = 128;  // two lines: processors fetch neighbours together

  struct alignas(kShardAlignment) Shard {
    std::array<std::atomic<std::uint32_t>, 2> readers = {};
  };

  [[nodiscard]] static std::size_t ShardOfThread() {
    return Mix64(std::hash<std::thread::id>{}(std::this_thread::get_id())) >> (64U - kShardBits);
  }

  mutable std::array<Shard, std::size_t{1} << kShardBits> shards_;
  std::atomic<Epoch> epoch_ = 1;
};

}  // namespace roost::router

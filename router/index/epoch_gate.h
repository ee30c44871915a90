// Tells the writer, without locks, when no reader can see removed data any more (epoch-based reclamation; Fraser,
// Practical lock-freedom, 2004; with counters of readers as in sleepable RCU instead of a list of threads).
//
// Readers of even and of odd epochs are counted separately. The epoch advances from e to e + 1 only when no reader that
// entered in e - 1 is left, so data that was unlinked in epoch e is invisible to every reader from e + 2 on:
//
//   unlinked in e        no reader of e-1 left       no reader of e left
//   ────────────── e ─────────────────────── e + 1 ─────────────────────── e + 2: reuse or free it
//
// A long-running reader only delays reuse. Both counters are checked after the unlinking, by read-modify-writes. So a
// reader that a check did not count has seen the unlinking, whichever epoch it read when it entered.
//
// Readers: any number of threads; entering and leaving are one atomic addition each, wait-free. One writer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/rng.h"

namespace roost::router {

// Counts from 1; no process lives long enough to reach 2^48.
using Epoch = std::uint64_t;

class EpochGate {
 public:
  // Data that was reachable when the pin was made stays valid while the pin lives.
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

  // For the writer. Advances the epoch if possible; costs a few hundred nanoseconds.
  void TryAdvance() {
    const Epoch next = epoch_.load(std::memory_order_relaxed) + 1;
    for (Shard& shard : shards_) {
      if (shard.readers[next % 2].fetch_add(0, std::memory_order_acq_rel) != 0) return;
    }
    epoch_.store(next, std::memory_order_relaxed);
  }

  [[nodiscard]] Epoch now() const { return epoch_.load(std::memory_order_relaxed); }
  // True if no reader can see data that was unlinked in `epoch`.
  [[nodiscard]] bool IsOver(Epoch epoch) const { return now() - epoch >= 2; }

 private:
  static constexpr std::size_t kShardBits = 5;
  static constexpr std::size_t kShardAlignment = 128;  // two cache lines, because processors fetch them in pairs

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

// Fits the number of a pool's threads to the processors that are free: reads the kernel's counts of running and waiting
// for these threads, and applies a ThreadGovernor's decision. Where the kernel does not count, all threads stay in use.
//
// Threads: used by the pool's caller alone, between loops.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/thread_times.h"
#include "kernels/cpu/work_pool.h"

namespace roost::kernels {

// Decides with how many threads a pool computes on a machine that others use too. A thread that waits for a processor
// holds up the loops that it shares; if some processors are free, as many threads get through sooner. If none is, all
// threads are best, since the kernel shares processors out among threads. So:
//
//   most ── the threads wait much ──► as many as have processors for themselves ── a pause ──► a quarter more (probe)
//    ▲                                   │   ▲                                                    │
//    └── not even one has a processor ◄──┘   └──────── they wait much again: the pause doubles ◄──┘
//
// A decision follows from the times of all threads over a window. It is pure: no thread, no clock.
class ThreadGovernor {
 public:
  // The least computing time of all threads, with their waiting, that tells anything; and how often to look.
  static constexpr Duration kWindow = std::chrono::milliseconds(500);
  static constexpr Duration kLeastTimes = std::chrono::milliseconds(100);
  // A quarter: of two threads beside one busy process, each waits a third of its time.
  static constexpr double kMuchWaiting = 0.25;
  // Rounded to the nearest number of threads.
  static constexpr double kLeastUndisturbed = 0.5;
  static constexpr Duration kFirstPause = std::chrono::seconds(4);
  static constexpr Duration kLongestPause = std::chrono::seconds(32);

  explicit ThreadGovernor(std::uint32_t most) : most_(most), in_use_(most), settled_(most) {}

  // The threads for the next window; `times` are those of all threads since the last call.
  std::uint32_t Decide(const ThreadTimes& times, Instant now);

  [[nodiscard]] std::uint32_t in_use() const { return in_use_; }
  // Without the threads of a probe.
  [[nodiscard]] std::uint32_t settled() const { return settled_; }

 private:
  void GiveWay(double waiting_share, Instant now);
  void Raise();

  const std::uint32_t most_;
  std::uint32_t in_use_;
  std::uint32_t settled_;
  ThreadTimes times_;  // of this window
  Duration pause_ = kFirstPause;
  Instant next_probe_{};
};

class PoolWatch {
 public:
  using ReadTimes = std::function<std::optional<ThreadTimes>(pid_t thread)>;
  // Called with the number of threads in use when it has changed; a probe that fails changes nothing.
  using OnChange = std::function<void(std::uint32_t in_use)>;

  // `pool` outlives it.
  PoolWatch(
      WorkPool& pool, OnChange on_change, ReadTimes read = [](pid_t thread) { return ReadThreadTimes(thread); })
      : pool_(pool), on_change_(std::move(on_change)), read_(std::move(read)), governor_(pool.thread_count()) {}

  // Call it often: it does nothing but once in a window. Reads a small file for each thread then.
  void Look(Instant now);

 private:
  // The times of all threads since the last call.
  [[nodiscard]] ThreadTimes TakeTimes();

  WorkPool& pool_;
  const OnChange on_change_;
  const ReadTimes read_;
  ThreadGovernor governor_;
  Instant next_look_{};
  std::map<pid_t, ThreadTimes> last_;
};

}  // namespace roost::kernels

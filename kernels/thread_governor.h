// Decides with how many threads a pool computes on a machine that others use too. Threads that wait for processors hold
// up the loops that they share, and fewer threads then get through sooner. Nothing says beforehand how many; so:
//
//   most ── the threads wait much ──► as many as got processors ── a pause ──► a quarter more (probe) ──► …
//                                         ▲                                        │
//                                         └───────── they wait much again: the pause doubles
//
// A decision follows from the times of all threads over a window. It is pure: no thread, no clock.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/thread_times.h"

namespace roost::kernels {

class ThreadGovernor {
 public:
  // The least computing time of all threads, with their waiting, that tells anything; and how often to look.
  static constexpr Duration kWindow = std::chrono::milliseconds(500);
  static constexpr Duration kLeastTimes = std::chrono::milliseconds(100);
  // A quarter: of two threads beside one busy process, each waits a third of its time.
  static constexpr double kMuchWaiting = 0.25;
  static constexpr Duration kFirstPause = std::chrono::seconds(4);
  static constexpr Duration kLongestPause = std::chrono::seconds(32);

  explicit ThreadGovernor(std::uint32_t most) : most_(most), in_use_(most), settled_(most) {}

  // The threads for the next window; `times` are those of all threads since the last call.
  std::uint32_t Decide(const ThreadTimes& times, Instant now);

  [[nodiscard]] std::uint32_t in_use() const { return in_use_; }
  // Without the threads of a probe.
  [[nodiscard]] std::uint32_t settled() const { return settled_; }

 private:
  void Lower(double waiting_share, Instant now);
  void Raise();

  const std::uint32_t most_;
  std::uint32_t in_use_;
  std::uint32_t settled_;
  ThreadTimes times_;  // of this window
  Duration pause_ = kFirstPause;
  Instant next_probe_{};
};

}  // namespace roost::kernels

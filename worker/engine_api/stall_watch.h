// Tells a thread that hangs from one that works or waits. The thread says when it turns to its work, which it does
// again after each step of it, when a part of a long step is done, and when it waits for more; any thread asks how long
// the thread has been at what it does now, and whether parts of a step get done: a slow step is not a hung one.
//
// Thread-safe, without locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace roost::worker {

class StallWatch {
 public:
  // `clock` outlives it. The watched thread waits at first.
  explicit StallWatch(const Clock& clock) : clock_(clock) {}

  // ---- the watched thread ----
  void OnTurn() {
    turned_at_.store(NowCount());
    heard_at_.store(turned_at_.load());
  }
  void OnWait() { heard_at_.store(kWaiting); }
  // A part of the present step is done.
  void OnPart() {
    heard_at_.store(NowCount());
    part_count_.fetch_add(1);
  }

  // ---- any thread ----
  // Since the last turn or part; zero while the thread waits.
  [[nodiscard]] Duration StepTime() const {
    const Duration::rep heard_at = heard_at_.load();
    return heard_at == kWaiting ? Duration(0) : Duration(NowCount() - heard_at);
  }
  // Parts of steps so far, and from the begin of the present step to its last part; zero before that, and while the
  // thread waits.
  struct Parts {
    std::uint64_t count = 0;
    Duration under_way{};
  };
  [[nodiscard]] Parts parts() const {
    const Duration::rep turned_at = turned_at_.load();
    return {part_count_.load(), Duration(std::max<Duration::rep>(heard_at_.load() - turned_at, 0))};
  }

 private:
  static constexpr Duration::rep kWaiting = -1;

  [[nodiscard]] Duration::rep NowCount() const { return clock_.Now().time_since_epoch().count(); }

  const Clock& clock_;
  // Nanoseconds of the clock.
  std::atomic<Duration::rep> turned_at_ = 0;
  std::atomic<Duration::rep> heard_at_ = kWaiting;  // of the last turn or part
  std::atomic<std::uint64_t> part_count_ = 0;
};

}  // namespace roost::worker

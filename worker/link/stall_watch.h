// Tells a thread that hangs from one that works or waits. The thread says when it turns to its work, which it does
// again after each step of it, and when it waits for more; any thread asks how long the present step takes.
//
// Thread-safe, without locks.
#pragma once

#include <atomic>

#include "common/base/clock.h"

namespace roost::worker {

class StallWatch {
 public:
  // `clock` outlives it. The watched thread waits at first.
  explicit StallWatch(const Clock& clock) : clock_(clock) {}

  // ---- the watched thread ----
  void OnTurn() { turned_at_.store(clock_.Now().time_since_epoch().count()); }
  void OnWait() { turned_at_.store(kWaiting); }

  // ---- any thread ----
  // Since the last turn; zero while the thread waits.
  [[nodiscard]] Duration StepTime() const {
    const Duration::rep turned_at = turned_at_.load();
    return turned_at == kWaiting ? Duration(0) : clock_.Now().time_since_epoch() - Duration(turned_at);
  }

 private:
  static constexpr Duration::rep kWaiting = -1;

  const Clock& clock_;
  std::atomic<Duration::rep> turned_at_ = kWaiting;  // nanoseconds of the clock
};

}  // namespace roost::worker

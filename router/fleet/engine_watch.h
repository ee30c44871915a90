// Does a worker's engine make progress? A worker whose engine hangs goes on with its heartbeats: they repeat the
// engine's last report, and so its progress (wire::Load).
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace roost::router {

enum class EngineWork : std::uint8_t { kNone, kSome };

class EngineWatch {
 public:
  // A step may take so many times what it is predicted to take, before it counts as one that never ends.
  static constexpr double kStepsOfPatience = 4;
  // Of an engine of which no step was seen: nothing predicts its first one.
  static constexpr Duration kFirstStepPatience = std::chrono::seconds(120);

  EngineWatch(Duration stall_timeout, Instant now) : stall_timeout_(stall_timeout), since_(now) {}

  // A report came, with the engine's progress and whether it has work.
  void Observe(std::uint64_t progress, EngineWork work, Instant now) {
    if (progress != progress_ || work == EngineWork::kNone) since_ = now;
    progress_ = progress;
  }
  // The time until now does not count: the watcher itself stood still.
  void Forgive(Instant now) { since_ = now; }

  // It has had work, and no progress, for longer than a step can take. `step_seconds` is what a step is predicted to
  // take; 0 when nothing is known.
  [[nodiscard]] bool IsStalled(double step_seconds, Instant now) const {
    const Duration step = step_seconds > 0 ? FromSeconds(kStepsOfPatience * step_seconds) : kFirstStepPatience;
    return now - since_ > std::max(stall_timeout_, step);
  }

  [[nodiscard]] std::uint64_t progress() const { return progress_; }

 private:
  const Duration stall_timeout_;
  std::uint64_t progress_ = 0;
  Instant since_;  // of the last progress, or of the last report without work
};

}  // namespace roost::router

// Detects a worker's hung engine. Such a worker still sends heartbeats, but with the same progress counter
// (wire::Load), which grows with each step and each part of a step. So a step may take long: it hangs when no part of
// it gets done.
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
  // A step counts as hung once it takes this many times its predicted time.
  static constexpr double kStepsOfPatience = 4;
  // The limit for an engine that has not completed a step yet: nothing predicts its first one.
  static constexpr Duration kFirstStepPatience = std::chrono::seconds(120);

  EngineWatch(Duration stall_timeout, Instant now) : stall_timeout_(stall_timeout), since_(now) {}

  // A report came, with the engine's progress and whether it has work.
  void Observe(std::uint64_t progress, EngineWork work, Instant now) {
    if (progress != progress_ || work == EngineWork::kNone) since_ = now;
    progress_ = progress;
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { since_ = now; }

  // The engine has had work and made no progress for longer than a step can take. `step_seconds` is the predicted time
  // of a step, 0 when it is not known.
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

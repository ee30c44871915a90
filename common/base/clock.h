// Time as a parameter. Code that makes decisions takes a Clock, so that tests and simulations run on virtual time.
#pragma once

#include <chrono>
#include <ctime>

namespace roost {

using Duration = std::chrono::nanoseconds;

// A point on the monotonic time line of one process. Never wall time: a clock jump must not fire a timeout.
struct MonotonicTimeline {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicTimeline>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): std::chrono asks for the name
};
using Instant = MonotonicTimeline::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }
};

// Stands still until told to move. Not thread-safe: a test owns its time line.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Instant now_{std::chrono::seconds(1)};
};

[[nodiscard]] inline double ToSeconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

[[nodiscard]] inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace roost

// Judges whether a worker's link has been silent for too long. A worker reports at least every 250 ms. On a machine
// that other programs keep busy, its link's thread waits for a processor, and reports come later and later before they
// stay away for as long as those of a dead worker. So the limit follows the gaps that this worker makes now:
//
//   limit = kPatience × the longest recent gap, at least the timeout, at most kMostTimeouts × the timeout
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"

namespace roost::router {

class LinkSilence {
 public:
  static constexpr int kPatience = 4;
  static constexpr int kMostTimeouts = 5;
  // A gap counts for this part of a second less with each second that passes.
  static constexpr int kFading = 10;

  LinkSilence(Duration timeout, Instant now) : timeout_(timeout), heard_(now) {}

  void OnMessage(Instant now) {
    const Duration gap = now - heard_;
    longest_gap_ = std::min(std::max(gap, longest_gap_ - gap / kFading), kMostTimeouts * timeout_ / kPatience);
    heard_ = now;
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { heard_ = now; }

  [[nodiscard]] Instant heard() const { return heard_; }
  [[nodiscard]] Duration limit() const { return std::max<Duration>(timeout_, kPatience * longest_gap_); }
  [[nodiscard]] bool IsOver(Instant now) const { return now - heard_ > limit(); }

 private:
  const Duration timeout_;
  Instant heard_;
  Duration longest_gap_{};
};

}  // namespace roost::router

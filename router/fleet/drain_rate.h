// How long a queue takes to drain, by how fast requests left it lately: over its last departures, or since it began.
//
// Not thread-safe, no clock. Constant memory and time.
#pragma once

#include <cstddef>
#include <deque>

#include "common/base/clock.h"

namespace roost::router {

class DrainRate {
 public:
  // Requests began to wait.
  explicit DrainRate(Instant start) : instants_{start} {}

  // One of them was sent on. `now` never goes back.
  void OnDeparture(Instant now) {
    instants_.push_back(now);
    if (instants_.size() > kMostInstants) instants_.pop_front();
  }

  // Until `count` more have left. As if the next one left now: so the estimate is known from the start, and grows while
  // nobody leaves.
  [[nodiscard]] Duration TimeFor(std::size_t count, Instant now) const {
    const auto departures = static_cast<double>(instants_.size());
    return FromSeconds(ToSeconds(now - instants_.front()) * static_cast<double>(count) / departures);
  }

 private:
  static constexpr std::size_t kMostInstants = 64;

  std::deque<Instant> instants_;  // when the time that is looked at began, then departures
};

}  // namespace roost::router

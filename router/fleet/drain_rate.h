// Estimates how long a queue takes to drain, from its last departures, or from the time since it began.
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

  // The time until `count` more have left, if the next one left now. So there is an estimate from the start, and it
  // grows while no request leaves.
  [[nodiscard]] Duration TimeFor(std::size_t count, Instant now) const {
    const auto departures = static_cast<double>(instants_.size());
    return FromSeconds(ToSeconds(now - instants_.front()) * static_cast<double>(count) / departures);
  }

 private:
  static constexpr std::size_t kMostInstants = 64;

  std::deque<Instant> instants_;  // the start of the observed time, then the departures
};

}  // namespace roost::router

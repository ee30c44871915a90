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

  // A waiting request was sent to a worker. `now` never goes back.
  void OnDeparture(Instant now) {
    instants_.push_back(now);
    if (instants_.size() > kMostInstants) instants_.pop_front();
  }

  // The time until `count` requests have left. It counts as if one more request left now, so there is an estimate from
  // the start, and the estimate grows while no request leaves.
  [[nodiscard]] Duration TimeFor(std::size_t count, Instant now) const {
    const auto departures = static_cast<double>(instants_.size());
    return FromSeconds(ToSeconds(now - instants_.front()) * static_cast<double>(count) / departures);
  }

 private:
  static constexpr std::size_t kMostInstants = 64;

  std::deque<Instant> instants_;  // the start of the observation, then the departures
};

}  // namespace roost::router

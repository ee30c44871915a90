// A sum of amounts whose weight decays with their age: Σ amount · 2^(-age / half-life).
//
// A plain value; not thread-safe. Constant time.
#pragma once

#include <chrono>
#include <cmath>

#include "common/base/clock.h"

namespace roost::router {

// The time scale for "recent" events, such as waits for lack of a copy or the joining of a worker. Events that are
// several times as old say little about the future.
inline constexpr Duration kRecentTime = std::chrono::seconds(60);

class FadedSum {
 public:
  FadedSum(Duration half_life, Instant start) : half_life_seconds_(ToSeconds(half_life)), when_(start) {}

  // `now` never goes back. An amount of 0 only moves the time forward.
  void Add(double amount, Instant now) {
    value_ = At(now) + amount;
    when_ = now;
  }

  // The sum at the time of the last Add.
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] double At(Instant now) const {
    return value_ * std::exp2(-ToSeconds(now - when_) / half_life_seconds_);
  }

 private:
  double half_life_seconds_;
  double value_ = 0;
  Instant when_;
};

}  // namespace roost::router

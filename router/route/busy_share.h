// The share of its time that a worker has spent on prefill lately: what queueing theory calls ρ.
//
//   share = Σ busy · 2^(-age / half-life)  ÷  Σ elapsed · 2^(-age / half-life)
//
// Decodes alone do not make a worker busy: a prompt that comes joins their next step. What a step's prefill took is the
// time that its tokens would have taken in full steps, see PrefillSeconds in cost.h.
//
// A plain value; not thread-safe. Constant time.
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "router/route/faded_sum.h"

namespace roost::router {

class BusyShare {
 public:
  static constexpr Duration kHalfLife = std::chrono::seconds(20);

  explicit BusyShare(Instant start)
      : last_(start), busy_seconds_(kHalfLife, start), elapsed_seconds_(kHalfLife, start) {}

  // A report that came at `now`, which never goes back, tells of so many seconds of prefill. A report without any
  // counts too: time went by.
  void Observe(double busy_seconds, Instant now);

  // 0 to 1, as of the last report. Before much time went by, what is missing to a second counts as idle.
  [[nodiscard]] double value() const;

 private:
  Instant last_;
  FadedSum busy_seconds_;
  FadedSum elapsed_seconds_;
};

}  // namespace roost::router

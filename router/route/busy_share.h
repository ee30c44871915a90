// The share of its recent time that a worker spent on prefill: ρ in queueing theory.
//
//   share = Σ busy · 2^(-age / half-life)  ÷  Σ elapsed · 2^(-age / half-life)
//
// Decodes alone do not make a worker busy: a new prompt joins their next step. The prefill time of a step is the time
// that its prompt tokens would have taken in full steps; see PrefillSeconds in cost.h.
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

  // A report came at `now` with this many seconds of prefill. `now` never goes back. Call it for reports without
  // prefill too, because they let time pass.
  void Observe(double busy_seconds, Instant now);

  // 0 to 1, as of the last report. In the first second, the missing time counts as idle.
  [[nodiscard]] double value() const;

 private:
  Instant last_;
  FadedSum busy_seconds_;
  FadedSum elapsed_seconds_;
};

}  // namespace roost::router

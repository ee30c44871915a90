// What steps of decodes take: one fit over all workers of a revision, and how much slower each of them is.
//
//   step of worker w  ≈  slowness(w) · (base + per_request · requests + per_context_token · their context tokens)
//
// One worker alone sees too few loads to tell the three terms apart: while it has one request, all of a step may be its
// context's, and a worker that it leaves idle would seem to draw tokens for nothing. Together the workers of a fleet
// see many. What differs between them, and what other programs on the machine take from them, is one factor, which
// follows quickly.
//
// Plain values; not thread-safe. Constant time.
#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"

namespace roost::router {

// Of a revision.
class DecodeCosts {
 public:
  static constexpr Duration kHalfLife = std::chrono::minutes(10);  // of a step in the fit

  // A step of any worker. `now` never goes back.
  void Observe(const StepSample& step, Instant now);

  // All zero until some steps with decodes were seen.
  [[nodiscard]] DecodeCost fit() const { return rates_.decode_cost(); }

 private:
  RateEstimator rates_;
  std::optional<Instant> last_;
};

// Of a worker.
class DecodePace {
 public:
  // A step without prefill, and what the fit expects of it.
  void Observe(double seconds, double expected_seconds);

  // Its time for a step relative to the fit's; 1 until a step was seen.
  [[nodiscard]] double slowness() const { return expected_seconds_ > 0 ? seconds_ / expected_seconds_ : 1; }

 private:
  // Sums over its steps, in which a step counts half after about 34 more.
  double seconds_ = 0;
  double expected_seconds_ = 0;
};

}  // namespace roost::router

// The costs of workers' steps: one fit over all workers of a revision, and how much slower each of them is.
//
//   step of worker w  ≈  slowness(w) · (base + prompt tokens / rate + per_request · requests
//                                       + per_context_token · their context tokens)
//
// The fit is to the steps divided by their workers' factors, so that workers of different speeds are no noise to it.
//
// One worker alone sees too few different steps to tell the terms apart. While it has one request, all of a step may be
// its context's, and when it is idle again it would seem to draw tokens for nothing; and if it computed only short
// pieces of prompts, all of a step may be their tokens'. Together the workers of a fleet see enough. Their differences,
// and the time that other programs on the machine take from them, are one factor, which follows quickly.
//
// Steps of decodes alone have a fit of their own: how long a prompt's tokens take depends on how many come before them,
// which no report tells, and beside that decodes are lost.
//
// A worker's word counts for all, so a step that its memory can not hold is left out: one such step would outweigh all
// others for hours.
//
// Plain values; not thread-safe. Constant time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/rate_estimator.h"

namespace roost::router {

// True if a worker whose pool has so many tokens, and that ran so many requests, can have made the step. A pool of 0
// tokens is not known.
[[nodiscard]] bool IsPossible(const StepSample& step, std::uint64_t pool_tokens, std::uint32_t running_requests);

// The fitted costs of a revision's steps.
class StepCosts {
 public:
  static constexpr Duration kHalfLife = std::chrono::minutes(10);  // of a step in the fit

  // A step of a worker that is so much slower than the fit. `now` never goes back.
  void Observe(StepSample step, double slowness, Instant now);

  // All zero until some steps of decodes were seen.
  [[nodiscard]] DecodeCost decode() const { return decodes_.decode_cost(); }
  // Zero until some prompts were computed. Until they had several lengths it holds the time of the steps too.
  [[nodiscard]] double prefill_tokens_per_second() const;
  // The expected time of a step like this one; zero while that is unknown.
  [[nodiscard]] double ExpectedSeconds(const StepSample& step) const;

 private:
  RateEstimator all_;
  RateEstimator decodes_;  // of steps without prefill
  std::optional<Instant> last_;
};

// A worker's pace relative to the fit, for one kind of step.
class StepPace {
 public:
  // Takes the time of a step, and the fit's expectation of it.
  void Observe(double seconds, double expected_seconds);

  // Its time for a step relative to the fit's; 1 until a step was seen.
  [[nodiscard]] double slowness() const { return expected_seconds_ > 0 ? seconds_ / expected_seconds_ : 1; }

 private:
  // Sums over its steps, in which a step counts half after about 34 more.
  double seconds_ = 0;
  double expected_seconds_ = 0;
};

}  // namespace roost::router

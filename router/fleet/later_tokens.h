// Judges a worker by the tokens that it owes to requests that have begun: a peer can send each first token at once,
// report progress without end, and let the answers drip or stop. In each step a worker sends a token to each request
// that runs, so together they tell its pace:
//
//   first token ── each token pays for its share of a step, several times over ── unpaid time ──► longer than patience:
//                                                                                                 tokens stay away
//
// An honest worker owes nothing after each step, however slow its machine is: it reports what its steps take. With
// kPatience three of four requests may wait there, because they were preempted. Nothing is paid ahead.
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"
#include "router/fleet/first_tokens.h"

namespace roost::router {

class LaterTokens {
 public:
  // A step's tokens pay for this many times what a step takes …
  static constexpr double kPatience = 4;
  // … and for this at least: the engine also works between steps, and its machine may be busy.
  static constexpr double kLeastSeconds = 0.5;

  // `least` is the unpaid time after which tokens may stay away at all.
  explicit LaterTokens(Duration least) : least_(least) {}

  // Nothing is owed until now: the first of the worker's requests begins, or this process itself was paused.
  void Begin(Instant now) { paid_until_ = now; }
  // A request that had begun got `count` tokens, while `begun` requests ran that had. `step_seconds` is what the
  // worker's steps take now; 0, not known, pays for all.
  void OnTokens(std::size_t count, std::uint32_t begun, double step_seconds, Instant now) {
    const double share = static_cast<double>(count) / std::max(begun, 1U);
    paid_until_ = step_seconds > 0 ? std::min(now, paid_until_ + FromSeconds(share * StepPays(step_seconds))) : now;
  }

  // Whether nothing is owed.
  [[nodiscard]] bool IsPaid(Instant now) const { return paid_until_ >= now; }
  // While requests run that have begun.
  [[nodiscard]] bool StayAway(double step_seconds, Instant now) const {
    return step_seconds > 0 && ToSeconds(now - paid_until_) > std::max(ToSeconds(least_), StepPays(step_seconds));
  }

 private:
  // Whatever the worker reports, it has a bound.
  [[nodiscard]] static double StepPays(double step_seconds) {
    return std::clamp(kPatience * step_seconds, kLeastSeconds, FirstTokens::kMostSecondsByReports);
  }

  const Duration least_;
  Instant paid_until_{};
};

}  // namespace roost::router

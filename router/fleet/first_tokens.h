// Judges a worker by the first tokens that it owes: a peer can report progress without end, and an engine may hang in
// its very first step, of which nothing is known yet. Only tokens count.
//
//   request sent ── silence: no token of any request ──► longer than the worker can need: the first token is overdue
//                        ▲ any token ends it
//
// A busy worker answers some request, so it is not silent. One that computes a long prompt, or stands behind others, is
// given several times the predicted time; one whose steps or first tokens have become slow is given several times that.
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/clock.h"

namespace roost::router {

class FirstTokens {
 public:
  // A first token is overdue after this many times the predicted time …
  static constexpr double kPatience = 4;
  // … and this many times the longest silence before a recent first token.
  static constexpr double kSilencePatience = 2;
  // By telling of more work or of slower steps a worker lengthens the time of requests that it already has, up to the
  // larger of this and this many times the predicted time: a long prompt may take much longer than short ones promise.
  static constexpr double kMostSecondsByReports = 30;
  static constexpr double kMostPatienceByReports = 16;
  // Workers compile a constraint before the request's first step, for thirty seconds at most.
  static constexpr double kConstraintSeconds = 32;

  // An open request without a token. Zeros: not known.
  struct Owed {
    Instant sent_at;
    double predicted_seconds = 0;  // when it was sent
    double expected_seconds = 0;   // by what the worker reports now
    double step_seconds = 0;       // of its last step, or of the one under way if that is longer
    bool is_constrained = false;
  };

  // `least` is the time after which a first token may be overdue at all.
  FirstTokens(Duration least, Instant now) : least_(least), heard_(now) {}

  // A token of a request came.
  void OnToken(Instant now) { heard_ = now; }
  // It is the first one of a request that was sent at `sent_at`. Call it before OnToken.
  void OnFirstToken(Instant sent_at, Instant now) {
    const double silence = ToSeconds(now - std::max(sent_at, heard_));
    slowest_seconds_ = std::max(kFading * slowest_seconds_, std::min(silence, kMostSecondsByReports));
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { heard_ = now; }

  [[nodiscard]] Duration least() const { return least_; }
  // Whether it has been silent for so long that any request could be overdue.
  [[nodiscard]] bool IsSilent(Instant now) const { return now - heard_ > least_; }
  // False while nothing is known of the worker's speed.
  [[nodiscard]] bool IsOverdue(const Owed& owed, Instant now) const {
    if (owed.predicted_seconds <= 0 && owed.expected_seconds <= 0) return false;
    const double most_by_reports = std::max(kMostSecondsByReports, kMostPatienceByReports * owed.predicted_seconds);
    const double by_reports = kPatience * (owed.expected_seconds + 2 * owed.step_seconds);
    const double seconds = std::max({kPatience * owed.predicted_seconds, std::min(by_reports, most_by_reports),
                                     kSilencePatience * slowest_seconds_});
    const double for_constraint = owed.is_constrained ? kConstraintSeconds : 0;
    const double patience = std::max(ToSeconds(least_), seconds) + for_constraint;
    return ToSeconds(now - std::max(owed.sent_at, heard_)) > patience;
  }

 private:
  // A long silence counts for less with each further first token.
  static constexpr double kFading = 0.9;

  const Duration least_;
  Instant heard_;  // the last token, or the start
  double slowest_seconds_ = 0;
};

}  // namespace roost::router

// Judges whether a worker is well, by its link, its engine's progress, the tokens that it owes, and its failures. Five
// judges, none of which knows the others; a Worker has one of each.
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"

namespace roost::router {

// Judges whether a worker's link has been silent for too long. A worker reports at least every 250 ms. On a machine
// that other programs keep busy, its link's thread waits for a processor, and reports come later and later before they
// stay away for as long as those of a dead worker. So the limit follows the gaps that this worker makes now:
//
//   limit = kPatience × the longest recent gap, at least the timeout, at most kMaxTimeouts × the timeout
class LinkSilence {
 public:
  static constexpr int kPatience = 4;
  static constexpr int kMaxTimeouts = 5;
  // A gap counts for this part of a second less with each second that passes.
  static constexpr int kFading = 10;

  LinkSilence(Duration timeout, Instant now) : timeout_(timeout), heard_(now) {}

  void OnMessage(Instant now) {
    const Duration gap = now - heard_;
    longest_gap_ = std::min(std::max(gap, longest_gap_ - gap / kFading), kMaxTimeouts * timeout_ / kPatience);
    heard_ = now;
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { heard_ = now; }

  [[nodiscard]] Instant heard() const { return heard_; }
  [[nodiscard]] Duration limit() const { return std::max<Duration>(timeout_, kPatience * longest_gap_); }
  [[nodiscard]] bool IsOver(Instant now) const { return now - heard_ > limit(); }

 private:
  const Duration timeout_;
  Instant heard_;
  Duration longest_gap_{};
};

// Detects a worker's hung engine. Such a worker still sends heartbeats, but with the same progress counter
// (wire::Load), which grows with each step and each part of a step. So a step may take long: it hangs when no part of
// it gets done.
enum class EngineWork : std::uint8_t { kNone, kSome };

class EngineWatch {
 public:
  // A step counts as hung once it takes this many times its predicted time.
  static constexpr double kStepsOfPatience = 4;
  // The limit for an engine that has not completed a step yet: nothing predicts its first one.
  static constexpr Duration kFirstStepPatience = std::chrono::seconds(120);

  EngineWatch(Duration stall_timeout, Instant now) : stall_timeout_(stall_timeout), since_(now) {}

  // A report came, with the engine's progress and whether it has work.
  void Observe(std::uint64_t progress, EngineWork work, Instant now) {
    if (progress != progress_ || work == EngineWork::kNone) since_ = now;
    progress_ = progress;
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { since_ = now; }

  // The engine has had work and made no progress for longer than a step can take. `step_seconds` is the predicted time
  // of a step, 0 when it is not known.
  [[nodiscard]] bool IsStalled(double step_seconds, Instant now) const {
    const Duration step = step_seconds > 0 ? FromSeconds(kStepsOfPatience * step_seconds) : kFirstStepPatience;
    return now - since_ > std::max(stall_timeout_, step);
  }

  [[nodiscard]] std::uint64_t progress() const { return progress_; }

 private:
  const Duration stall_timeout_;
  std::uint64_t progress_ = 0;
  Instant since_;  // of the last progress, or of the last report without work
};

// Judges a worker by the first tokens that it owes: a peer can report progress without end, and an engine may hang in
// its very first step, of which nothing is known yet. Only tokens count.
//
//   request sent ── silence: no token of any request ──► longer than the worker can need: the first token is overdue
//                        ▲ any token ends it
//
// A busy worker answers some request, so it is not silent. One that computes a long prompt, or stands behind others, is
// given several times the predicted time; one whose steps or first tokens have become slow is given several times that.
class FirstTokens {
 public:
  // A first token is overdue after this many times the predicted time …
  static constexpr double kPatience = 4;
  // … and this many times the longest silence before a recent first token.
  static constexpr double kSilencePatience = 2;
  // By telling of more work or of slower steps a worker lengthens the time of requests that it already has, up to the
  // larger of this and this many times the predicted time: a long prompt may take much longer than short ones promise.
  static constexpr double kMaxSecondsByReports = 30;
  static constexpr double kMaxPatienceByReports = 16;
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
    slowest_seconds_ = std::max(kFading * slowest_seconds_, std::min(silence, kMaxSecondsByReports));
  }
  // Ignores the time until `now`, because this process itself was paused.
  void Forgive(Instant now) { heard_ = now; }

  [[nodiscard]] Duration least() const { return least_; }
  // True if it has been silent for so long that any request could be overdue.
  [[nodiscard]] bool IsSilent(Instant now) const { return now - heard_ > least_; }
  // False while nothing is known of the worker's speed.
  [[nodiscard]] bool IsOverdue(const Owed& owed, Instant now) const {
    if (owed.predicted_seconds <= 0 && owed.expected_seconds <= 0) return false;
    const double most_by_reports = std::max(kMaxSecondsByReports, kMaxPatienceByReports * owed.predicted_seconds);
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

// Judges a worker by the tokens that it owes to requests that have begun: a peer can send each first token at once,
// report progress without end, and let the answers drip or stop. In each step a worker sends a token to each request
// that runs, so together they tell its pace:
//
//   first token ── each token pays for its share of a step, several times over ── unpaid time ──► longer than patience:
//                                                                                                 tokens stay away
//
// An honest worker owes nothing after each step, however slow its machine is: it reports what its steps take. With
// kPatience three of four requests may wait there, because they were preempted. Nothing is paid ahead.
class LaterTokens {
 public:
  // A step's tokens pay for this many times what a step takes …
  static constexpr double kPatience = 4;
  // … and for this at least: the engine also works between steps, and its machine may be busy.
  static constexpr double kMinSeconds = 0.5;

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

  // True if nothing is owed.
  [[nodiscard]] bool IsPaid(Instant now) const { return paid_until_ >= now; }
  // While requests run that have begun.
  [[nodiscard]] bool StayAway(double step_seconds, Instant now) const {
    return step_seconds > 0 && ToSeconds(now - paid_until_) > std::max(ToSeconds(least_), StepPays(step_seconds));
  }

 private:
  // Whatever the worker reports, it has a bound.
  [[nodiscard]] static double StepPays(double step_seconds) {
    return std::clamp(kPatience * step_seconds, kMinSeconds, FirstTokens::kMaxSecondsByReports);
  }

  const Duration least_;
  Instant paid_until_{};
};

// Keeps requests away from a worker that fails one request after another. Such a worker fails fast, looks idle, and
// would attract more and more requests. It is ejected for a time that doubles, and is then tried with one request:
//
//   kIn ── kFailures in a row ──► kOut ── the time is over ──► kTrial ── sent ──► kProbed ── served ──► kIn
//                                  ▲                                                │
//                                  └────────────── twice as long ──── fails ◄───────┘
//
// A worker whose tokens stay away (see FirstTokens and LaterTokens) is out at once. One that is out again soon after
// it came back is out for twice as long too.
class Ejection {
 public:
  static constexpr std::uint32_t kFailures = 3;
  static constexpr Duration kFirstTime = std::chrono::seconds(1);
  static constexpr Duration kLongestTime = std::chrono::seconds(60);
  // "Soon": within this many times the time that it was out.
  static constexpr int kMemory = 8;

  // True if the worker may get a request.
  [[nodiscard]] bool admits() const { return state_ == State::kIn || state_ == State::kTrial; }
  [[nodiscard]] bool is_in() const { return state_ == State::kIn; }

  // True when its time out ends now, so that it may get requests again.
  [[nodiscard]] bool Tick(Instant now) {
    if (state_ != State::kOut || now < until_) return false;
    state_ = State::kTrial;
    return true;
  }

  // Call it with each request that is sent. True when this request is the trial; then one of OnServed, OnFailure and
  // OnProbeDropped follows.
  [[nodiscard]] bool OnSent() {
    if (state_ != State::kTrial) return false;
    state_ = State::kProbed;
    return true;
  }

  // A request got its tokens as it should, all of them or so far.
  void OnServed(Instant now) {
    if (state_ == State::kOut) return;  // the request was sent before the ejection
    if (state_ != State::kIn) back_at_ = now;
    state_ = State::kIn;
    failure_count_ = 0;
  }

  // True when the worker is ejected now.
  [[nodiscard]] bool OnFailure(Instant now) {
    if (state_ == State::kIn && ++failure_count_ < kFailures) return false;
    return OnSilence(now);
  }
  // The same, when it answers none of its requests.
  [[nodiscard]] bool OnSilence(Instant now) {
    if (state_ == State::kOut) return false;
    const bool again = state_ != State::kIn || (back_at_.has_value() && now - *back_at_ < kMemory * time_);
    time_ = again ? std::min(2 * time_, kLongestTime) : kFirstTime;
    state_ = State::kOut;
    until_ = now + time_;
    return true;
  }

  // The trial request ended without a result: for example, its client went away.
  void OnProbeDropped() {
    if (state_ == State::kProbed) state_ = State::kTrial;
  }

  // Takes the worker back, because there is no other one.
  void Lift() {
    state_ = State::kIn;
    failure_count_ = 0;
  }

 private:
  enum class State : std::uint8_t { kIn, kOut, kTrial, kProbed };

  State state_ = State::kIn;
  std::uint32_t failure_count_ = 0;  // in a row
  Duration time_ = kFirstTime;       // the length of the current or next ejection
  Instant until_{};                  // with kOut
  std::optional<Instant> back_at_;   // from its last ejection
};

}  // namespace roost::router

// Keeps requests away from a worker that fails one request after another. Such a worker fails fast, looks idle, and
// would attract more and more requests. It is ejected for a time that doubles, and is then tried with one request:
//
//   kIn ── kFailures in a row ──► kOut ── the time is over ──► kTrial ── sent ──► kProbed ── first token ──► kIn
//                                  ▲                                                │
//                                  └────────────── twice as long ──── fails ◄───────┘
//
// A worker whose first tokens stay away (see FirstTokens) is out at once.
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace roost::router {

class Ejection {
 public:
  static constexpr std::uint32_t kFailures = 3;
  static constexpr Duration kFirstTime = std::chrono::seconds(1);
  static constexpr Duration kLongestTime = std::chrono::seconds(60);

  // Whether the worker may get a request.
  [[nodiscard]] bool admits() const { return state_ == State::kIn || state_ == State::kTrial; }
  [[nodiscard]] bool is_in() const { return state_ == State::kIn; }

  // True when its time out ends now, so that it may get requests again.
  [[nodiscard]] bool Tick(Instant now) {
    if (state_ != State::kOut || now < until_) return false;
    state_ = State::kTrial;
    return true;
  }

  // Call it with each request that is sent. True when this request is the trial; then one of OnFirstToken, OnFailure
  // and OnProbeDropped follows.
  [[nodiscard]] bool OnSent() {
    if (state_ != State::kTrial) return false;
    state_ = State::kProbed;
    return true;
  }

  void OnFirstToken() {
    if (state_ == State::kOut) return;  // the request was sent before the ejection
    state_ = State::kIn;
    failure_count_ = 0;
    time_ = kFirstTime;
  }

  // True when the worker is ejected now.
  [[nodiscard]] bool OnFailure(Instant now) {
    if (state_ == State::kIn && ++failure_count_ < kFailures) return false;
    return OnSilence(now);
  }
  // The same, when it answers none of its requests.
  [[nodiscard]] bool OnSilence(Instant now) {
    if (state_ == State::kOut) return false;
    if (state_ != State::kIn) time_ = std::min(2 * time_, kLongestTime);
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
};

}  // namespace roost::router

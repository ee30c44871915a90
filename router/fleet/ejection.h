// Keeps requests away from a worker that fails one request after another. Such a worker fails fast, looks idle, and
// would attract more and more requests. It is ejected for a time that doubles, and is then tried with one request:
//
//   kIn ── kFailures in a row ──► kOut ── the time is over ──► kTrial ── sent ──► kProbed ── served ──► kIn
//                                  ▲                                                │
//                                  └────────────── twice as long ──── fails ◄───────┘
//
// A worker whose tokens stay away (see FirstTokens and LaterTokens) is out at once. One that is out again soon after
// it came back is out for twice as long too.
//
// Not thread-safe, no clock. Constant time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"

namespace roost::router {

class Ejection {
 public:
  static constexpr std::uint32_t kFailures = 3;
  static constexpr Duration kFirstTime = std::chrono::seconds(1);
  static constexpr Duration kLongestTime = std::chrono::seconds(60);
  // "Soon": within this many times the time that it was out.
  static constexpr int kMemory = 8;

  // Whether the worker may get a request.
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

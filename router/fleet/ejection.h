// Keeps requests from a worker that fails one after the other: it does so fast, looks idle, and would get ever more of
// them. It is left out for a time that doubles, and then tried with one request:
//
//   kIn ── kFailures in a row ──► kOut ── the time is over ──► kTrial ── sent ──► kProbed ── first token ──► kIn
//                                  ▲                                                │
//                                  └────────────── twice as long ──── fails ◄───────┘
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

  // May it be sent a request?
  [[nodiscard]] bool admits() const { return state_ == State::kIn || state_ == State::kTrial; }
  [[nodiscard]] bool is_in() const { return state_ == State::kIn; }

  // True when its time is over with this, so that it admits again.
  [[nodiscard]] bool Tick(Instant now) {
    if (state_ != State::kOut || now < until_) return false;
    state_ = State::kTrial;
    return true;
  }

  // To be called with each request that is sent. True when it is the one that the worker is tried with: then one of
  // OnFirstToken, OnFailure and OnProbeDropped follows.
  [[nodiscard]] bool OnSent() {
    if (state_ != State::kTrial) return false;
    state_ = State::kProbed;
    return true;
  }

  void OnFirstToken() {
    if (state_ == State::kOut) return;  // of a request from before
    state_ = State::kIn;
    failure_count_ = 0;
    time_ = kFirstTime;
  }

  // True when the worker is left out from here on.
  [[nodiscard]] bool OnFailure(Instant now) {
    if (state_ == State::kOut || (state_ == State::kIn && ++failure_count_ < kFailures)) return false;
    if (state_ != State::kIn) time_ = std::min(2 * time_, kLongestTime);
    state_ = State::kOut;
    until_ = now + time_;
    return true;
  }

  // The probe ended and proved nothing: its client went away, say.
  void OnProbeDropped() {
    if (state_ == State::kProbed) state_ = State::kTrial;
  }

  // It is needed: there is no other worker.
  void Lift() {
    state_ = State::kIn;
    failure_count_ = 0;
  }

 private:
  enum class State : std::uint8_t { kIn, kOut, kTrial, kProbed };

  State state_ = State::kIn;
  std::uint32_t failure_count_ = 0;  // in a row
  Duration time_ = kFirstTime;       // that it is left out, now or next
  Instant until_{};                  // with kOut
};

}  // namespace roost::router

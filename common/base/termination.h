// SIGTERM and SIGINT as something to wait for. Make it first in main, before any other thread: threads inherit the
// blocked signals, so no signal interrupts them.
//
//   Termination termination;
//   … start up; a signal ends the process at once, because nothing is served yet …
//   termination.BeginServing();
//   termination.Wait(std::nullopt, 1);   // the first: drain
//   termination.Wait(timeout, 2);        // a second: end at once
//
// A daemon that reads files again at SIGHUP makes it with Hangup::kReloads; then SIGHUP never ends the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace roost {

// One per process. Also makes a write to a closed connection an error instead of SIGPIPE.
class Termination {
 public:
  enum class Hangup { kEnds, kReloads };

  explicit Termination(Hangup hangup = Hangup::kEnds);
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Before this call, a signal ends the process with exit code 128 + its number.
  void BeginServing();

  // Waits until `count` signals have come since BeginServing, or `timeout` has passed. True if they have.
  bool Wait(std::optional<std::chrono::milliseconds> timeout, int count);

  // Calls `reload` at each SIGHUP, on the watching thread: it must return at once. An empty function takes that back;
  // when this returns, the one before neither runs nor will.
  void OnHangup(std::function<void()> reload);

 private:
  void Watch();

  sigset_t signals_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool serving_ = false;             // guarded by mutex_
  bool ending_ = false;              // guarded by mutex_
  int count_ = 0;                    // guarded by mutex_
  std::function<void()> on_hangup_;  // guarded by mutex_

  std::thread thread_;
};

// While it exists, SIGHUP calls `reload`; see Termination::OnHangup. The termination outlives it.
class HangupReload {
 public:
  HangupReload(Termination& termination, std::function<void()> reload) : termination_(termination) {
    termination.OnHangup(std::move(reload));
  }
  HangupReload(const HangupReload&) = delete;
  HangupReload& operator=(const HangupReload&) = delete;
  ~HangupReload() { termination_.OnHangup({}); }

 private:
  Termination& termination_;
};

}  // namespace roost

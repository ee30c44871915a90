#include "common/base/termination.h"

#include <pthread.h>

#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost {

Termination::Termination(Hangup hangup) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  if (hangup == Hangup::kReloads) sigaddset(&signals_, SIGHUP);
  ROOST_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, nullptr) == 0);
  ROOST_CHECK(std::signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  thread_ = std::thread([this] { Watch(); });
}

Termination::~Termination() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  // Ends the watcher's wait. The watcher takes the blocked signal with sigwait, so the process does not terminate.
  pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  thread_.join();
}

void Termination::BeginServing() {
  const std::lock_guard lock(mutex_);
  serving_ = true;
}

bool Termination::Wait(std::optional<std::chrono::milliseconds> timeout, int count) {
  std::unique_lock lock(mutex_);
  const auto enough = [this, count] { return count_ >= count; };
  if (timeout) return changed_.wait_for(lock, *timeout, enough);
  changed_.wait(lock, enough);
  return true;
}

void Termination::OnHangup(std::function<void()> reload) {
  const std::lock_guard lock(mutex_);
  on_hangup_ = std::move(reload);
}

void Termination::Watch() {
  NameThisThread("signals");
  while (true) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    if (signal == SIGHUP) {
      if (on_hangup_) on_hangup_();
      continue;
    }
    if (!serving_) {
      LogInfo("ended by a signal during start-up");
      FlushLog();
      std::_Exit(128 + signal);
    }
    ++count_;
    changed_.notify_all();
  }
}

}  // namespace roost

// Waiting for another thread that may never come: what it waits for itself may be a device that has failed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace roost::kernels {

// How often who waits looks after the others.
inline constexpr std::chrono::milliseconds kWatchPeriod{10};

// Returns when `done`, which the lock guards, holds. Meanwhile calls `watch` now and then, without the lock: it ends
// the process when the wait would never end. Without a watch it just waits.
template <typename Done>
void WatchedWait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                 const std::function<void()>& watch, const Done& done) {
  if (!watch) {
    changed.wait(lock, done);
    return;
  }
  while (!changed.wait_for(lock, kWatchPeriod, done)) {
    lock.unlock();
    watch();
    lock.lock();
  }
}

}  // namespace roost::kernels

// Waiting for another thread that may never arrive, because it waits for a device that has failed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace roost::kernels {

// The period at which a waiting thread calls its watch.
inline constexpr std::chrono::milliseconds kWatchPeriod{10};

// Returns when `done`, which the lock guards, is true. Meanwhile calls `watch` periodically, without the lock: the
// watch ends the process if the wait would never end. Without a watch it only waits.
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

// A barrier for the threads of a group's ranks. A thread's writes before it are visible to all of them after it.
//
// No thread waits for a failed one: a rank that fails ends the process (device_failure.h, ROOST_CHECK). If the failed
// rank does not notice, a waiting thread with a watch ends the process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "common/base/check.h"
#include "kernels/watched_wait.h"

namespace roost::kernels {

class RankBarrier {
 public:
  explicit RankBarrier(std::uint32_t rank_count) : rank_count_(rank_count) { ROOST_CHECK(rank_count > 0); }

  // Returns when all ranks have called it as often as this one. `watch`: see watched_wait.h.
  void ArriveAndWait(const std::function<void()>& watch = {}) {
    std::unique_lock lock(mutex_);
    if (++arrived_ == rank_count_) {
      arrived_ = 0;
      ++round_;
      all_arrived_.notify_all();
      return;
    }
    const std::uint64_t round = round_;
    WatchedWait(all_arrived_, lock, watch, [&] { return round_ != round; });
  }

 private:
  const std::uint32_t rank_count_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  // Guarded by mutex_.
  std::uint32_t arrived_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace roost::kernels

// Fits the number of a pool's threads to the processors that are free: reads the kernel's counts of running and waiting
// for these threads, and applies a ThreadGovernor's decision. Where the kernel does not count, all threads stay in use.
//
// Threads: used by the pool's caller alone, between loops.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/thread_times.h"
#include "kernels/thread_governor.h"
#include "kernels/work_pool.h"

namespace roost::kernels {

class PoolWatch {
 public:
  using ReadTimes = std::function<std::optional<ThreadTimes>(pid_t thread)>;
  // Called with the number of threads in use when it has changed; a probe that fails changes nothing.
  using OnChange = std::function<void(std::uint32_t in_use)>;

  // `pool` outlives it.
  PoolWatch(
      WorkPool& pool, OnChange on_change, ReadTimes read = [](pid_t thread) { return ReadThreadTimes(thread); })
      : pool_(pool), on_change_(std::move(on_change)), read_(std::move(read)), governor_(pool.thread_count()) {}

  // Call it often: it does nothing but once in a window. Reads a small file for each thread then.
  void Look(Instant now);

 private:
  // The times of all threads since the last call.
  [[nodiscard]] ThreadTimes TakeTimes();

  WorkPool& pool_;
  const OnChange on_change_;
  const ReadTimes read_;
  ThreadGovernor governor_;
  Instant next_look_{};
  std::map<pid_t, ThreadTimes> last_;
};

}  // namespace roost::kernels

// Lets threads that wait for a processor run before the calling one computes on. For threads that compute for longer
// than a millisecond beside others whose work is short and waited for: sockets, links.
//
// Where all processors are busy, Linux often lets a woken thread wait for the next tick, 4 ms at 250 Hz: the running
// one keeps its slice, and one that has just run is not eligible (kernel/sched/fair.c, since 6.6). A request changes
// threads some ten times, so these waits were most of its time beside long answers.
//
// Costs a clock reading when it was called within the last millisecond, and a system call otherwise. A thread that
// gives way loses the rest of its slice (Linux 6.18): beside another that computes all the time on the same processor,
// with steps of 2.5 ms, it had 47 % of the time instead of 50, with the least interval 42 %. Thread-safe.
#pragma once

#include <chrono>
#include <thread>

namespace roost {

inline void GiveWay() {
  constexpr std::chrono::milliseconds kInterval{1};
  using Time = std::chrono::steady_clock;
  thread_local Time::time_point last;
  if (Time::now() - last < kInterval) return;
  std::this_thread::yield();
  last = Time::now();
}

}  // namespace roost

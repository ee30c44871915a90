#include "kernels/pool_watch.h"

#include <utility>
#include <vector>

namespace roost::kernels {

void PoolWatch::Look(Instant now) {
  if (now < next_look_) return;
  next_look_ = now + ThreadGovernor::kWindow;
  const std::uint32_t before = governor_.settled();
  pool_.SetThreadsInUse(governor_.Decide(TakeTimes(), now));
  if (governor_.settled() != before) on_change_(governor_.settled());
}

// A thread counts from the second time that it is seen: what it did before the pool computed says nothing.
ThreadTimes PoolWatch::TakeTimes() {
  std::vector<pid_t> threads = pool_.HelperIds();
  threads.push_back(ThisThreadId());
  ThreadTimes sum;
  std::map<pid_t, ThreadTimes> seen;
  for (const pid_t thread : threads) {
    const std::optional<ThreadTimes> times = read_(thread);
    if (!times) continue;
    seen.emplace(thread, *times);
    if (const auto last = last_.find(thread); last != last_.end()) sum += *times - last->second;
  }
  last_ = std::move(seen);
  return sum;
}

}  // namespace roost::kernels

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace roost::kernels {

std::uint32_t ThreadGovernor::Decide(const ThreadTimes& times, Instant now) {
  if (most_ == 1) return 1;
  times_ += times;
  if (times_.ran + times_.waited < kLeastTimes) return in_use_;  // it has little to do
  const ThreadTimes window = std::exchange(times_, ThreadTimes());
  const double waiting_share = ToSeconds(window.waited) / ToSeconds(window.ran + window.waited);
  if (waiting_share > kMuchWaiting) {
    GiveWay(waiting_share, now);
    return in_use_;
  }
  if (in_use_ > std::exchange(settled_, in_use_)) pause_ = kFirstPause;  // the probe has shown that there is room
  if (in_use_ < most_ && now >= next_probe_) Raise();
  return in_use_;
}

// The kernel serves all threads that can run alike, so the share that waits tells how many are beyond the processors.
// If leaving out so many leaves none, all of ours together get more than fewer would. A probe that fails leaves what
// was in use before it.
void ThreadGovernor::GiveWay(double waiting_share, Instant now) {
  const double surplus = most_ * waiting_share / (1 - waiting_share);
  const double undisturbed = in_use_ - surplus;
  if (undisturbed < kLeastUndisturbed) {
    in_use_ = settled_ = most_;
    return;
  }
  if (in_use_ > settled_) {
    pause_ = std::min(2 * pause_, kLongestPause);
    in_use_ = settled_;
  } else {
    in_use_ = std::max(1U, std::min(in_use_ - 1, static_cast<std::uint32_t>(std::lround(undisturbed))));
  }
  settled_ = in_use_;
  next_probe_ = now + pause_;
}

void ThreadGovernor::Raise() { in_use_ = std::min(most_, in_use_ + std::max(1U, in_use_ / 4)); }

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

#include "kernels/thread_governor.h"

#include <algorithm>
#include <utility>

namespace roost::kernels {

std::uint32_t ThreadGovernor::Decide(const ThreadTimes& times, Instant now) {
  times_ += times;
  if (times_.ran + times_.waited < kLeastTimes) return in_use_;  // it has little to do
  const ThreadTimes window = std::exchange(times_, ThreadTimes());
  const double waiting_share = ToSeconds(window.waited) / ToSeconds(window.ran + window.waited);
  if (waiting_share > kMuchWaiting) {
    if (in_use_ > 1) Lower(waiting_share, now);
    return in_use_;
  }
  if (in_use_ > std::exchange(settled_, in_use_)) pause_ = kFirstPause;  // the probe has shown that there is room
  if (in_use_ < most_ && now >= next_probe_) Raise();
  return in_use_;
}

// A probe that fails leaves what was in use before it.
void ThreadGovernor::Lower(double waiting_share, Instant now) {
  if (in_use_ > settled_) {
    pause_ = std::min(2 * pause_, kLongestPause);
    in_use_ = settled_;
  } else {
    const auto served = static_cast<std::uint32_t>(in_use_ * (1 - waiting_share));
    in_use_ = std::clamp(served, 1U, in_use_ - 1);
  }
  settled_ = in_use_;
  next_probe_ = now + pause_;
}

void ThreadGovernor::Raise() { in_use_ = std::min(most_, in_use_ + std::max(1U, in_use_ / 4)); }

}  // namespace roost::kernels

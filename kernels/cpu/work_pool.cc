#include "kernels/cpu/work_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/thread_name.h"
#include "common/base/thread_times.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace roost::kernels {
namespace {

using std::chrono::steady_clock;

// Between the loops of a step there are a few microseconds.
constexpr std::chrono::microseconds kHelperSpin{50};
// A task of another thread that has its core ends within this time. To sleep and be woken costs as much on a virtual
// machine, some two hundred times in a decode step.
constexpr std::chrono::microseconds kCallerSpin{50};
constexpr int kPausesPerLook = 16;

constexpr unsigned kTaskBits = 24;
constexpr std::uint64_t kTaskMask = (std::uint64_t{1} << kTaskBits) - 1;
static_assert(kTaskMask == WorkPool::kMaxTasks);

constexpr std::uint32_t kCallerSleeps = std::uint32_t{1} << 31U;  // in left_

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Until ready() or the time is over; returns the last ready().
template <typename Ready>
bool SpinFor(std::chrono::microseconds limit, const Ready& ready) {
  if (ready()) return true;
  const steady_clock::time_point end = steady_clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      Pause();
      if (ready()) return true;
    }
  } while (steady_clock::now() < end);
  return false;
}

enum class Woken : std::uint8_t { kByWaker, kByItself };

// Sleeps if `word` still has this value. (std::atomic's wait yields first, which gives a busy core away for
// milliseconds.)
Woken Sleep(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr);
  return result == 0 ? Woken::kByWaker : Woken::kByItself;
}

// Returns how many slept.
std::uint32_t Wake(std::atomic<std::uint32_t>& word, std::uint32_t most) {
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, std::min<std::uint32_t>(most, INT_MAX));
  return woken > 0 ? static_cast<std::uint32_t>(woken) : 0;
}

}  // namespace

WorkPool::WorkPool(std::uint32_t thread_count, const std::function<void()>& on_start)
    : thread_count_(thread_count), shares_(thread_count), in_use_(thread_count), helper_ids_(thread_count) {
  ROOST_CHECK(thread_count > 0);
  for (std::uint32_t thread = 1; thread < thread_count; ++thread) {
    helpers_.emplace_back([this, thread, on_start] {
      NameThisThread("compute");
      helper_ids_[thread].store(ThisThreadId(), std::memory_order_relaxed);
      if (on_start) on_start();
      Help(thread);
    });
  }
}

WorkPool::~WorkPool() {
  stopping_.store(true);
  SetThreadsInUse(thread_count_);
  signal_.fetch_add(1);
  Wake(signal_, INT_MAX);
  for (std::thread& helper : helpers_) helper.join();
}

void WorkPool::SetThreadsInUse(std::uint32_t count) {
  ROOST_CHECK(count > 0 && count <= thread_count_, "{} of {} threads", count, thread_count_);
  if (in_use_.exchange(count) < count) Wake(in_use_, INT_MAX);
}

std::vector<pid_t> WorkPool::HelperIds() const {
  std::vector<pid_t> ids;
  for (const std::atomic<pid_t>& helper : helper_ids_) {
    const pid_t id = helper.load(std::memory_order_relaxed);
    if (id != 0) ids.push_back(id);
  }
  return ids;
}

void WorkPool::RunLoop(std::size_t count, const void* context, Call call) {
  ROOST_CHECK(count <= kMaxTasks, "{} tasks in one loop", count);
  ROOST_CHECK(!running_.exchange(true), "a loop inside another one, or from two threads");
  if (count > 0) {
    Publish(static_cast<std::uint32_t>(count), context, call);
    WakeHelpers(static_cast<std::uint32_t>(count));
    ClaimAll(0);
    AwaitOthers();
  }
  running_.store(false);
}

// The shares are closed before anything else changes: a late helper that has read the word of the last loop, and then
// reads the end of this one, must not claim what the last loop did not have. Those of threads that are not in use stay
// closed.
void WorkPool::Publish(std::uint32_t count, const void* context, Call call) {
  ++loop_;
  for (Share& share : shares_) share.word.store(loop_ << kTaskBits | kTaskMask, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  left_.store(count, std::memory_order_relaxed);
  const std::uint64_t sharers = threads_in_use();
  for (std::uint64_t thread = 0; thread < sharers; ++thread) {
    Share& share = shares_[thread];
    share.end.store(static_cast<std::uint32_t>(count * (thread + 1) / sharers), std::memory_order_release);
    share.word.store(loop_ << kTaskBits | count * thread / sharers, std::memory_order_release);
  }
}

// A helper counts itself as a sleeper and looks at signal_ once more; here it is the other way round: one of both sees
// the other.
void WorkPool::WakeHelpers(std::uint32_t count) {
  const std::uint32_t wanted = std::min(count, threads_in_use()) - 1;
  signal_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0 || wanted == 0) return;
  const std::uint32_t woken = Wake(signal_, wanted);
  if (woken > 0) sleepers_.fetch_sub(woken, std::memory_order_relaxed);
}

void WorkPool::ClaimAll(std::uint32_t thread) {
  for (std::size_t turn = 0; turn < shares_.size(); ++turn)
    ClaimFrom(shares_[(thread + turn) % shares_.size()], thread);
}

void WorkPool::ClaimFrom(Share& share, std::uint32_t thread) {
  std::uint64_t word = share.word.load(std::memory_order_acquire);
  while (true) {
    const std::uint64_t task = word & kTaskMask;
    if (task >= share.end.load(std::memory_order_acquire)) return;
    const void* const context = context_.load(std::memory_order_relaxed);
    const Call call = call_.load(std::memory_order_relaxed);
    if (!share.word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    call(context, task, thread);
    FinishTask();
    word = share.word.load(std::memory_order_acquire);
  }
}

// Afterwards the caller may have gone on to other loops; waking it once too often does no harm.
void WorkPool::FinishTask() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == (kCallerSleeps | 1)) Wake(left_, 1);
}

void WorkPool::AwaitOthers() {
  const auto all_done = [this] { return (left_.load(std::memory_order_acquire) & ~kCallerSleeps) == 0; };
  if (SpinFor(kCallerSpin, all_done)) return;
  left_.fetch_or(kCallerSleeps, std::memory_order_acq_rel);
  for (std::uint32_t left = left_.load(std::memory_order_acquire); left != kCallerSleeps;
       left = left_.load(std::memory_order_acquire)) {
    (void)Sleep(left_, left);
  }
}

void WorkPool::Help(std::uint32_t thread) {
  std::uint32_t seen = 0;
  while (true) {
    AwaitUse(thread);
    seen = AwaitLoop(seen);
    if (stopping_.load(std::memory_order_acquire)) return;
    ClaimAll(thread);
  }
}

// A helper may learn late that it is not in use, and take part in one more loop, as any late helper does.
void WorkPool::AwaitUse(std::uint32_t thread) {
  for (std::uint32_t count = in_use_.load(std::memory_order_acquire); thread >= count;
       count = in_use_.load(std::memory_order_acquire)) {
    (void)Sleep(in_use_, count);
  }
}

// Returns the number of a loop that is not the one that was `seen`.
std::uint32_t WorkPool::AwaitLoop(std::uint32_t seen) {
  const auto has_begun = [this, seen] { return signal_.load(std::memory_order_acquire) != seen; };
  if (!SpinFor(kHelperSpin, has_begun)) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    // The thread that wakes a helper takes it off the count.
    while (!has_begun()) {
      if (Sleep(signal_, seen) != Woken::kByWaker) continue;
      if (has_begun()) return signal_.load(std::memory_order_acquire);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);  // the kernel may wake without a waker
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  return signal_.load(std::memory_order_acquire);
}

std::uint32_t ThreadGovernor::Decide(const ThreadTimes& times, Instant now) {
  if (most_ == 1) return 1;
  times_ += times;
  if (times_.ran + times_.waited < kMinTimes) return in_use_;  // it has little to do
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
  if (undisturbed < kMinUndisturbed) {
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

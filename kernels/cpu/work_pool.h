// The compute threads of a CPU device. A loop's tasks are claimed one at a time, by the threads that are awake, and the
// loop ends when all are done: a thread that the kernel has taken off its core holds up no loop unless it holds a task.
//
//   caller    publish the loop → wake sleepers → claim tasks until none is left → wait for those that others hold
//   helper    spin shortly, then sleep → claim tasks until none is left → …
//
// Each thread has a share of neighbouring tasks, which it runs in order, because they read neighbouring memory; a
// thread that has finished its own share helps with the others'. A share is one word: the loop's number and the next
// task. A helper reads the word, then the loop's fields, then claims by compare-and-swap. If that succeeds, the task
// was not claimed before, so the loop was not over, and the fields were its own. A helper that comes late fails to
// claim.
//
// No thread enters the kernel while all are busy. A waiting caller spins for as long as a task takes, and then sleeps,
// so that its core is free for the thread that it waits for.
//
// A pool may compute with fewer threads for a while: those beyond the number in use sleep, and have no share.
//
// Threads: one caller at a time; tasks must not start loops. Both are checked. Any thread may set the number in use.
// Tasks do not throw.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/thread_times.h"

namespace roost::kernels {

class WorkPool {
 public:
  // The caller is thread 0; thread_count - 1 helpers are started, each calls `on_start` once.
  explicit WorkPool(std::uint32_t thread_count, const std::function<void()>& on_start = {});
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  [[nodiscard]] std::uint32_t thread_count() const { return thread_count_; }
  // The threads that share the loops that begin from now on, the caller's among them: 1 … thread_count(), at first all.
  void SetThreadsInUse(std::uint32_t count);
  [[nodiscard]] std::uint32_t threads_in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // The helpers' numbers in /proc, of those that have begun.
  [[nodiscard]] std::vector<pid_t> HelperIds() const;

  // Calls task(index, thread) for 0 … count-1, each once, in any order; `thread` < thread_count(), and no two run with
  // the same `thread` at once. At most kMaxTasks. Writes before it are visible to the tasks, and the tasks' writes are
  // visible after it.
  template <typename Task>
  void Run(std::size_t count, const Task& task) {
    RunLoop(count, &task, [](const void* context, std::size_t index, std::uint32_t thread) noexcept {
      (*static_cast<const Task*>(context))(index, thread);
    });
  }

  static constexpr std::size_t kMaxTasks = (std::size_t{1} << 24U) - 1;

 private:
  using Call = void (*)(const void* context, std::size_t index, std::uint32_t thread) noexcept;

  struct alignas(64) Share {
    std::atomic<std::uint64_t> word = 0;  // loop << 24 | next task
    std::atomic<std::uint32_t> end = 0;
  };

  void RunLoop(std::size_t count, const void* context, Call call);
  void Publish(std::uint32_t count, const void* context, Call call);
  void WakeHelpers(std::uint32_t count);
  void ClaimAll(std::uint32_t thread);
  void ClaimFrom(Share& share, std::uint32_t thread);
  void FinishTask();
  void AwaitOthers();
  void Help(std::uint32_t thread);
  void AwaitUse(std::uint32_t thread);
  [[nodiscard]] std::uint32_t AwaitLoop(std::uint32_t seen);

  const std::uint32_t thread_count_;
  // Only the caller's.
  std::uint64_t loop_ = 0;
  std::atomic<bool> running_ = false;

  // The loop that the shares name.
  std::vector<Share> shares_;
  std::atomic<const void*> context_ = nullptr;
  std::atomic<Call> call_ = nullptr;

  alignas(64) std::atomic<std::uint32_t> signal_ = 0;  // counts loops; helpers sleep on it
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint32_t> in_use_;                    // threads beyond it sleep on it
  alignas(64) std::atomic<std::uint32_t> sleepers_ = 0;  // at least the helpers that sleep
  alignas(64) std::atomic<std::uint32_t> left_ = 0;      // tasks that are not done; the caller sleeps on it

  std::vector<std::atomic<pid_t>> helper_ids_;  // 0: it has not begun
  std::vector<std::thread> helpers_;
};

// Decides with how many threads a pool computes on a machine that others use too. A thread that waits for a processor
// holds up the loops that it shares; if some processors are free, as many threads get through sooner. If none is, all
// threads are best, since the kernel shares processors out among threads. So:
//
//   most ── the threads wait much ──► as many as have processors for themselves ── a pause ──► a quarter more (probe)
//    ▲                                   │   ▲                                                    │
//    └── not even one has a processor ◄──┘   └──────── they wait much again: the pause doubles ◄──┘
//
// A decision follows from the times of all threads over a window. It is pure: no thread, no clock.
class ThreadGovernor {
 public:
  // The least computing time of all threads, with their waiting, that tells anything; and how often to look.
  static constexpr Duration kWindow = std::chrono::milliseconds(500);
  static constexpr Duration kMinTimes = std::chrono::milliseconds(100);
  // A quarter: of two threads beside one busy process, each waits a third of its time.
  static constexpr double kMuchWaiting = 0.25;
  // Rounded to the nearest number of threads.
  static constexpr double kMinUndisturbed = 0.5;
  static constexpr Duration kFirstPause = std::chrono::seconds(4);
  static constexpr Duration kLongestPause = std::chrono::seconds(32);

  explicit ThreadGovernor(std::uint32_t most) : most_(most), in_use_(most), settled_(most) {}

  // The threads for the next window; `times` are those of all threads since the last call.
  std::uint32_t Decide(const ThreadTimes& times, Instant now);

  [[nodiscard]] std::uint32_t in_use() const { return in_use_; }
  // Without the threads of a probe.
  [[nodiscard]] std::uint32_t settled() const { return settled_; }

 private:
  void GiveWay(double waiting_share, Instant now);
  void Raise();

  const std::uint32_t most_;
  std::uint32_t in_use_;
  std::uint32_t settled_;
  ThreadTimes times_;  // of this window
  Duration pause_ = kFirstPause;
  Instant next_probe_{};
};

// Fits the number of a pool's threads to the processors that are free: reads the kernel's counts of running and waiting
// for these threads, and applies a ThreadGovernor's decision. Where the kernel does not count, all threads stay in use.
//
// Threads: used by the pool's caller alone, between loops.
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

// Distributes work over the compute threads of the CPU. OpenMP is the only pool: oneDNN's own loops run inside ours and
// stay serial.
//
// A device's team always has the same size: OpenMP ends threads when a smaller team follows a larger one, and starts
// new ones for the next. A thread without a task is idle.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <omp.h>

#include "kernels/cpu_device.h"

namespace roost::kernels {

// The cost of all tasks together, in multiply-adds or in operations that cost as much.
struct Cost {
  std::uint64_t operations = 0;
};

// About 50 µs of one core. Waking a team costs microseconds on an idle machine, and milliseconds on one whose cores are
// busy: too much for less work.
inline constexpr Cost kLeastSharedCost{std::uint64_t{2} << 20U};

// Each thread has a share of neighbouring tasks, which it runs in order, because they read neighbouring memory. A
// thread that has finished its own share helps with the others'.
template <typename Task>
void RunShares(std::span<TaskShare> shares, std::uint32_t thread, const Task& task) {
  for (std::size_t turn = 0; turn < shares.size(); ++turn) {
    TaskShare& share = shares[(thread + turn) % shares.size()];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const std::size_t index = share.next.fetch_add(1, std::memory_order_relaxed);
      if (index < share.end) task(index, thread);
    }
  }
}

// Calls task(index, thread) for 0 … count-1, each once, in any order. Wakes the team only for several tasks with enough
// work.
template <typename Task>
void ParallelFor(CpuDevice& device, std::size_t count, Cost cost, const Task& task) {
  const std::uint32_t threads = device.thread_count();
  if (threads == 1 || count <= 1 || cost.operations < kLeastSharedCost.operations) {
    for (std::size_t index = 0; index < count; ++index) task(index, std::uint32_t{0});
    return;
  }
  const std::span<TaskShare> shares = device.shares();
  for (std::size_t thread = 0; thread < threads; ++thread) {
    shares[thread].next.store(count * thread / threads, std::memory_order_relaxed);
    shares[thread].end = count * (thread + 1) / threads;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  RunShares(shares, static_cast<std::uint32_t>(omp_get_thread_num()), task);
}

// Calls task(begin, end) on ranges that cover rows 0 … rows-1, each with `width` elements to read and write.
template <typename Task>
void ParallelRows(CpuDevice& device, std::uint32_t rows, std::uint32_t width, const Task& task) {
  constexpr std::uint64_t kOperationsPerElement = 8;
  constexpr std::uint32_t kRowsPerTask = 16;
  const std::size_t tasks = (std::size_t{rows} + kRowsPerTask - 1) / kRowsPerTask;
  const Cost cost{kOperationsPerElement * rows * width};
  ParallelFor(device, tasks, cost, [&](std::size_t index, std::uint32_t) {
    const auto begin = static_cast<std::uint32_t>(index * kRowsPerTask);
    task(begin, std::min(rows, begin + kRowsPerTask));
  });
}

// While it exists, OpenMP code inside a library runs on the calling thread only, and wakes no team. For calls outside
// of our own loops.
class ScopedSerialOpenMp {
 public:
  ScopedSerialOpenMp() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~ScopedSerialOpenMp() { omp_set_num_threads(previous_); }
  ScopedSerialOpenMp(const ScopedSerialOpenMp&) = delete;
  ScopedSerialOpenMp& operator=(const ScopedSerialOpenMp&) = delete;

 private:
  int previous_;
};

}  // namespace roost::kernels

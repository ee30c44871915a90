// Work for the compute threads of the CPU. OpenMP is the one pool: oneDNN's own loops run inside ours and stay serial.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <omp.h>

#include "kernels/cpu_device.h"

namespace roost::kernels {

// How much there is to do in all, in multiply-adds or as much as they cost.
struct Cost {
  std::uint64_t operations = 0;
};

// About 50 µs of one core. Waking a team costs microseconds on an idle machine, and milliseconds on one whose cores are
// taken by others: not worth it for less.
inline constexpr Cost kLeastSharedCost{std::uint64_t{2} << 20U};

// Calls task(index, thread) for 0 … count-1, each once, in any order. No team is woken for one thread, one task, or
// little to do.
template <typename Task>
void ParallelFor(const CpuDevice& device, std::size_t count, Cost cost, const Task& task) {
  const bool shared = cost.operations >= kLeastSharedCost.operations;
  const auto threads = shared ? static_cast<int>(std::min<std::size_t>(device.thread_count(), count)) : 1;
  if (threads <= 1) {
    for (std::size_t index = 0; index < count; ++index) task(index, std::uint32_t{0});
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::size_t index = 0; index < count; ++index) task(index, static_cast<std::uint32_t>(omp_get_thread_num()));
}

// Calls task(begin, end) on ranges that cover rows 0 … rows-1, each with `width` elements to read and write.
template <typename Task>
void ParallelRows(const CpuDevice& device, std::uint32_t rows, std::uint32_t width, const Task& task) {
  constexpr std::uint64_t kOperationsPerElement = 8;
  constexpr std::uint32_t kRowsPerTask = 16;
  const std::size_t tasks = (std::size_t{rows} + kRowsPerTask - 1) / kRowsPerTask;
  const Cost cost{kOperationsPerElement * rows * width};
  ParallelFor(device, tasks, cost, [&](std::size_t index, std::uint32_t) {
    const auto begin = static_cast<std::uint32_t>(index * kRowsPerTask);
    task(begin, std::min(rows, begin + kRowsPerTask));
  });
}

// Keeps OpenMP code inside a library that is called outside of our loops to the calling thread, so that no team is
// woken behind our back.
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

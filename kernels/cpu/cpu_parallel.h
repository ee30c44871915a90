// Distributes work over the compute threads of the CPU: those of the device's pool, the only one. oneDNN's own loops
// (of OpenMP) run inside ours and stay serial.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <omp.h>

#include "kernels/cpu/cpu_device.h"

namespace roost::kernels {

// The cost of all tasks together, in multiply-adds or in operations that cost as much.
struct Cost {
  std::uint64_t operations = 0;
};

// About 50 µs of one core: waking a thread takes some microseconds, too much for less work.
inline constexpr Cost kMinSharedCost{std::uint64_t{2} << 20U};

// Calls task(index, thread) for 0 … count-1, each once, in any order; see WorkPool. Shares only several tasks with
// enough work.
template <typename Task>
void ParallelFor(CpuDevice& device, std::size_t count, Cost cost, const Task& task) {
  if (device.thread_count() > 1 && count > 1 && cost.operations >= kMinSharedCost.operations) {
    device.pool().Run(count, task);
    return;
  }
  for (std::size_t index = 0; index < count; ++index) task(index, std::uint32_t{0});
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

// While it exists, OpenMP code inside a library runs on the calling thread only, and wakes no team. The pool's own
// threads are like this all the time.
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

#include "common/wire/crowding.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace roost::wire {
namespace {

// Peers tell of threads: their sum may be anything.
std::uint32_t Bounded(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

template <typename Shares>
Crowding CrowdingAmong(std::span<const ComputeShare> all, std::uint32_t cores, Shares&& shares) {
  std::uint64_t threads = 0;
  std::uint64_t workers = 0;
  for (const ComputeShare& other : all) {
    if (other.threads == 0 || !shares(other)) continue;
    threads += other.threads;
    ++workers;
  }
  if (cores == 0 || threads <= cores) return {};
  return {.workers = Bounded(workers), .threads = Bounded(threads), .cores = cores};
}

}  // namespace

Crowding CrowdingOf(const ComputeShare& one, std::span<const ComputeShare> all) {
  if (one.threads == 0 || one.machine == 0) return {};
  const auto on_machine = [&one](const ComputeShare& other) { return other.machine == one.machine; };
  if (one.cpu_group != 0) {
    const auto in_group = [&](const ComputeShare& other) {
      return on_machine(other) && other.cpu_group == one.cpu_group;
    };
    const Crowding crowding = CrowdingAmong(all, one.cpu_group_cores, in_group);
    if (crowding != Crowding{}) return crowding;
  }
  return CrowdingAmong(all, one.machine_cores, on_machine);
}

}  // namespace roost::wire

// The processors that this process may use: those that it may run on, and of them no more than its cgroup's quota
// grants at a time. More threads than that would wait for each other while the kernel holds them back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace roost {

// Empty where there is no limit or it can not be read.
struct CpuLimits {
  std::optional<double> quota;            // processors: the least quota of the process's cgroup and those above it
  std::optional<std::uint32_t> affinity;  // processors that the process may run on (sched_setaffinity, cpusets)

  friend bool operator==(const CpuLimits&, const CpuLimits&) = default;
};

// From the files of /proc and of /sys/fs/cgroup, version 2 or 1, under `root`, and from this process's affinity.
[[nodiscard]] CpuLimits ReadCpuLimits(const std::filesystem::path& root = "/");

// Whole processors, at least one. Part of one is left for the threads that do not compute.
[[nodiscard]] std::uint32_t LeastOf(const CpuLimits& limits);

// The processors that this process may use now, rounded as LeastOf does. Reads a few small files.
[[nodiscard]] std::uint32_t UsableCpuCount();

// The processors that this process shares with others of its machine, told so that a reader of several processes'
// reports can see whether they have too many threads for it. It names machine and group by numbers that say nothing
// else.

// Zeros: not known.
struct SharedCpus {
  // The same in all containers of a machine, until it starts again; and its processors.
  std::uint64_t machine = 0;
  std::uint32_t machine_cores = 0;
  // The same for processes that a quota of one cgroup or one set of processors limits, and how many they may use at a
  // time, rounded up. 0: this process may use all of the machine.
  std::uint64_t group = 0;
  std::uint32_t group_cores = 0;

  friend bool operator==(const SharedCpus&, const SharedCpus&) = default;
};

// From the files of /proc and of /sys/fs/cgroup under `root`, and from this process's affinity.
[[nodiscard]] SharedCpus ReadSharedCpus(const std::filesystem::path& root = "/");

}  // namespace roost

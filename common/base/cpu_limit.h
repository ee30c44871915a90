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

}  // namespace roost

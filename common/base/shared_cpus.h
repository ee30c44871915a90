// The processors that this process shares with others of its machine, told so that a reader of several processes'
// reports can see whether they have too many threads for it. It names machine and group by numbers that say nothing
// else.
#pragma once

#include <cstdint>
#include <filesystem>

namespace roost {

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

// The memory that this process may use: the least of what its cgroup, its address space and the machine allow. Limits
// from flags are compared with it at the start, so that a pool that is too large is an error at the start; otherwise
// the kernel would kill the process in the middle of a request.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace roost {

// In bytes; empty where there is no limit or it can not be read.
struct MemoryLimits {
  std::optional<std::uint64_t> cgroup;         // the least limit of the process's cgroup and its ancestors
  std::optional<std::uint64_t> address_space;  // RLIMIT_AS
  std::optional<std::uint64_t> physical;       // of the machine, without swap

  friend bool operator==(const MemoryLimits&, const MemoryLimits&) = default;
};

// From the files of /proc and of /sys/fs/cgroup, version 2 or 1, under `root`.
[[nodiscard]] MemoryLimits ReadMemoryLimits(const std::filesystem::path& root = "/");

// The largest std::uint64_t where no limit is known.
[[nodiscard]] std::uint64_t LeastOf(const MemoryLimits& limits);

// The memory that this process may use now, in bytes. Reads a few small files.
[[nodiscard]] std::uint64_t MemoryLimitBytes();

// The same, and at most what the kernel estimates that a new process can use without swapping (MemAvailable).
[[nodiscard]] std::uint64_t AvailableMemoryBytes(const std::filesystem::path& root = "/");

}  // namespace roost

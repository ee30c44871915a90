#include "common/base/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace roost {
namespace {

namespace fs = std::filesystem;

using Bytes = std::optional<std::uint64_t>;

Bytes Least(Bytes a, Bytes b) { return a && b ? std::min(*a, *b) : (a ? a : b); }

// The number at the start of a text, after spaces; nothing for "max" and "unlimited".
Bytes LeadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? Bytes(number) : std::nullopt;
}

// The number behind `label`, on the first line of the file that begins with `label`.
Bytes NumberAfter(const fs::path& path, std::string_view label) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(label)) return LeadingNumber(std::string_view(line).substr(label.size()));
  }
  return std::nullopt;
}

// Version 1 says "no limit" with a number near 2^63.
Bytes LimitIn(const fs::path& file) {
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62U;
  const Bytes limit = NumberAfter(file, "");
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

// The least limit of a cgroup and of all its ancestors, up to the mount. In a container, the path can be the cgroup's
// path outside the container, while the mount shows only the container's own files. Then only the mount itself has a
// file.
Bytes LeastOnPath(const fs::path& mount, std::string_view cgroup, const char* file) {
  Bytes least = LimitIn(mount / file);
  fs::path at = mount;
  for (const fs::path& part : fs::path(cgroup).relative_path()) {
    at /= part;
    least = Least(least, LimitIn(at / file));
  }
  return least;
}

// Lines are "0::PATH" in version 2 and "NUMBER:CONTROLLER,CONTROLLER:PATH" in version 1. A machine may have both.
Bytes CgroupLimit(const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  Bytes least;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      least = Least(least, LeastOnPath(mounts, path, "memory.max"));
    } else if (controllers.find(",memory,") != controllers.npos) {
      least = Least(least, LeastOnPath(mounts / "memory", path, "memory.limit_in_bytes"));
    }
  }
  return least;
}

Bytes PhysicalMemory(const fs::path& root) {
  const Bytes kibibytes = NumberAfter(root / "proc/meminfo", "MemTotal:");
  return kibibytes ? Bytes(*kibibytes * 1024) : std::nullopt;
}

}  // namespace

MemoryLimits ReadMemoryLimits(const fs::path& root) {
  return {.cgroup = CgroupLimit(root),
          .address_space = NumberAfter(root / "proc/self/limits", "Max address space"),
          .physical = PhysicalMemory(root)};
}

std::uint64_t LeastOf(const MemoryLimits& limits) {
  const Bytes least = Least(limits.cgroup, Least(limits.address_space, limits.physical));
  return least.value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t MemoryLimitBytes() { return LeastOf(ReadMemoryLimits()); }

}  // namespace roost

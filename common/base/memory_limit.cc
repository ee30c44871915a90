#include "common/base/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "common/base/cgroup.h"

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

Bytes CgroupLimit(const fs::path& root) {
  Bytes least;
  ForEachCgroup(root, "memory", [&least](const fs::path& folder, CgroupVersion version) {
    least = Least(least, LimitIn(folder / (version == CgroupVersion::kTwo ? "memory.max" : "memory.limit_in_bytes")));
  });
  return least;
}

Bytes KibibytesAfter(const fs::path& root, std::string_view label) {
  const Bytes kibibytes = NumberAfter(root / "proc/meminfo", label);
  return kibibytes ? Bytes(*kibibytes * 1024) : std::nullopt;
}

}  // namespace

MemoryLimits ReadMemoryLimits(const fs::path& root) {
  return {.cgroup = CgroupLimit(root),
          .address_space = NumberAfter(root / "proc/self/limits", "Max address space"),
          .physical = KibibytesAfter(root, "MemTotal:")};
}

std::uint64_t LeastOf(const MemoryLimits& limits) {
  const Bytes least = Least(limits.cgroup, Least(limits.address_space, limits.physical));
  return least.value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t AvailableMemoryBytes(const fs::path& root) {
  const Bytes available = KibibytesAfter(root, "MemAvailable:");
  return std::min(LeastOf(ReadMemoryLimits(root)), available.value_or(std::numeric_limits<std::uint64_t>::max()));
}

std::uint64_t MemoryLimitBytes() { return LeastOf(ReadMemoryLimits()); }

}  // namespace roost

#include "common/base/cpu_limit.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/base/cgroup.h"
#include "common/base/rng.h"

namespace roost {
namespace {

namespace fs = std::filesystem;

std::optional<double> PositiveNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number > 0 ? std::optional(number) : std::nullopt;
}

// Microseconds of processor time in each period; no quota for "max" and -1.
std::optional<double> Processors(std::string_view quota, std::string_view period) {
  const std::optional<double> granted = PositiveNumber(quota);
  const std::optional<double> length = PositiveNumber(period);
  return granted && length ? std::optional(*granted / *length) : std::nullopt;
}

std::string WordIn(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::optional<double> QuotaIn(const fs::path& folder, CgroupVersion version) {
  if (version == CgroupVersion::kOne) {
    return Processors(WordIn(folder / "cpu.cfs_quota_us"), WordIn(folder / "cpu.cfs_period_us"));
  }
  std::ifstream file(folder / "cpu.max");
  std::string quota;
  std::string period;
  file >> quota >> period;
  return Processors(quota, period);
}

std::optional<std::uint32_t> Affinity() {
  // Larger than any machine: the call fails for a set that is too small.
  constexpr int kMaxProcessors = 1 << 16;
  cpu_set_t* const set = CPU_ALLOC(kMaxProcessors);
  if (set == nullptr) return std::nullopt;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxProcessors);
  std::optional<std::uint32_t> count;
  if (sched_getaffinity(0, bytes, set) == 0) count = static_cast<std::uint32_t>(CPU_COUNT_S(bytes, set));
  CPU_FREE(set);
  return count;
}

}  // namespace

CpuLimits ReadCpuLimits(const fs::path& root) {
  CpuLimits limits{.quota = std::nullopt, .affinity = Affinity()};
  ForEachCgroup(root, "cpu", [&limits](const fs::path& folder, CgroupVersion version) {
    const std::optional<double> quota = QuotaIn(folder, version);
    if (quota && (!limits.quota || *quota < *limits.quota)) limits.quota = quota;
  });
  return limits;
}

std::uint32_t LeastOf(const CpuLimits& limits) {
  std::uint32_t count = limits.affinity.value_or(std::thread::hardware_concurrency());
  if (limits.quota) count = static_cast<std::uint32_t>(std::min<double>(count, std::floor(*limits.quota)));
  return std::max(1U, count);
}

std::uint32_t UsableCpuCount() { return LeastOf(ReadCpuLimits()); }

namespace {

namespace fs = std::filesystem;

// Never 0.
std::uint64_t NumberOf(std::string_view text) {
  std::uint64_t number = text.size() + 1;
  for (const char byte : text) number = Mix64(number ^ static_cast<unsigned char>(byte));
  return std::max<std::uint64_t>(number, 1);
}

std::string TextOf(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Processes with equal text have one cgroup: paths are relative to a namespace, which the link names.
std::string CgroupOf(const fs::path& root) {
  std::error_code error;
  const fs::path name_space = fs::read_symlink(root / "proc/self/ns/cgroup", error);
  return name_space.string() + '\n' + TextOf(root / "proc/self/cgroup");
}

// The kernel's list of the processors that this process may run on, as in "0-3,8".
std::string CpuSetOf(const fs::path& root) {
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  std::ifstream file(root / "proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size());
  }
  return {};
}

}  // namespace

SharedCpus ReadSharedCpus(const fs::path& root) {
  SharedCpus shared;
  const std::string boot = TextOf(root / "proc/sys/kernel/random/boot_id");
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (boot.empty() || online <= 0) return shared;
  shared.machine = NumberOf(boot);
  shared.machine_cores = static_cast<std::uint32_t>(online);
  const CpuLimits limits = ReadCpuLimits(root);
  const double allowed = std::min<double>(limits.affinity.value_or(shared.machine_cores), shared.machine_cores);
  if (limits.quota && *limits.quota < allowed) {
    shared.group = NumberOf(CgroupOf(root));
    shared.group_cores = static_cast<std::uint32_t>(std::ceil(*limits.quota));
  } else if (allowed < shared.machine_cores) {
    shared.group = NumberOf(CpuSetOf(root));
    shared.group_cores = static_cast<std::uint32_t>(allowed);
  }
  return shared;
}

}  // namespace roost

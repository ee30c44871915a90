#include "common/base/shared_cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/cpu_limit.h"
#include "common/base/rng.h"

namespace roost {
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

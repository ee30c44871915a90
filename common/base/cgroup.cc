#include "common/base/cgroup.h"

#include <fstream>
#include <string>

namespace roost {
namespace {

namespace fs = std::filesystem;

// From the mount down to the cgroup.
void VisitPath(const fs::path& mount, std::string_view cgroup, CgroupVersion version,
               const std::function<void(const fs::path&, CgroupVersion)>& visit) {
  visit(mount, version);
  fs::path at = mount;
  for (const fs::path& part : fs::path(cgroup).relative_path()) {
    at /= part;
    visit(at, version);
  }
}

}  // namespace

// Lines are "0::PATH" in version 2 and "NUMBER:CONTROLLER,CONTROLLER:PATH" in version 1. A machine may have both.
void ForEachCgroup(const fs::path& root, std::string_view controller,
                   const std::function<void(const fs::path&, CgroupVersion)>& visit) {
  const fs::path mounts = root / "sys/fs/cgroup";
  const std::string wanted = "," + std::string(controller) + ",";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      VisitPath(mounts, path, CgroupVersion::kTwo, visit);
    } else if (controllers.find(wanted) != controllers.npos) {
      VisitPath(mounts / controller, path, CgroupVersion::kOne, visit);
    }
  }
}

}  // namespace roost

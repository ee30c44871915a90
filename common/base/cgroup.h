// The cgroups that limit this process: its own and those above it, in version 2 or 1, up to the mount.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace roost {

enum class CgroupVersion { kOne, kTwo };

// Calls `visit` with the folder of each cgroup of this process that has `controller` ("memory", "cpu"), from the files
// under `root`. A folder may lack the files of its controller: in a container, the path can be the cgroup's path
// outside the container, while the mount shows only the container's own files. Then only the mount itself has files.
void ForEachCgroup(const std::filesystem::path& root, std::string_view controller,
                   const std::function<void(const std::filesystem::path& folder, CgroupVersion version)>& visit);

}  // namespace roost

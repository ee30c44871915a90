#include "common/wire/version.h"

#include <fmt/format.h>

namespace roost::wire {

std::string Describe(const PeerVersion& version) {
  const std::string number = fmt::format("{}.{}", version.major, version.minor);
  return version.release.empty() ? number : fmt::format("{}, release {}", number, version.release);
}

Result<void> CheckMajors(const LinkVersions& versions) {
  if (versions.worker.major == versions.router.major) return {};
  return InvalidArgument("protocol_version",
                         "the worker speaks protocol {}, the router protocol {}: their major versions must be equal",
                         Describe(versions.worker), Describe(versions.router));
}

}  // namespace roost::wire

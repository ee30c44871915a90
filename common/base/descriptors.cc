#include "common/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace roost {

namespace {

// Some systems allow a billion. No daemon needs more than this.
constexpr rlim_t kMostDescriptors = rlim_t{1} << 21U;

}  // namespace

std::size_t DescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastDescriptors;
  return std::min(limit.rlim_cur, kMostDescriptors);
}

Result<std::size_t> RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMostDescriptors));
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
  }
  const std::size_t count = DescriptorLimit();
  if (count >= kLeastDescriptors) return count;
  return InvalidArgument("ulimit -n", "{} open files are too few: {} are the least, and each connection takes one",
                         count, kLeastDescriptors);
}

}  // namespace roost

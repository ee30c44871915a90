#include "worker/cache/eviction/eviction_factory.h"

#include <fmt/ranges.h>

#include "worker/cache/eviction/class_aware_eviction.h"

namespace roost::worker {
namespace {

using Policy = std::unique_ptr<EvictionPolicy>;

}  // namespace

Result<Policy> MakeEvictionPolicy(std::string_view name, std::uint32_t block_count,
                                  std::span<const double> group_shares, std::optional<std::uint32_t> kept_count) {
  const auto group_count = static_cast<std::uint32_t>(group_shares.size()) + 1;
  ROOST_CHECK(group_count <= kMaxEvictionGroups, "{} groups", group_count);
  if (name == "class-aware") return Policy(std::make_unique<ClassAwareEviction>(block_count, group_shares, kept_count));
  if (name == "lru") return Policy(std::make_unique<LruEviction>(block_count, group_count));
  return InvalidArgument("eviction", "there is no policy '{}'; the policies are {}", name,
                         fmt::join(kEvictionPolicyNames, ", "));
}

}  // namespace roost::worker

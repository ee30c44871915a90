#include "worker/cache/retention_book.h"

#include <algorithm>

#include "common/base/check.h"

namespace roost::worker {

RetentionBook::RetentionBook(std::uint32_t block_count, double share_limit, TenantBlocks& tenants)
    : block_count_(block_count), limit_(static_cast<std::uint32_t>(share_limit * block_count)), tenants_(tenants) {
  ROOST_CHECK(share_limit >= 0 && share_limit <= 1, "share_limit {}", share_limit);
}

std::uint32_t RetentionBook::RoomOf(TenantId tenant) const { return limit_ - std::min(limit_, kept_count(tenant)); }

std::uint32_t RetentionBook::kept_count(TenantId tenant) const {
  const auto found = counts_.find(tenant);
  return found == counts_.end() ? 0 : found->second;
}

void RetentionBook::Count(std::uint32_t block, TenantId tenant) {
  entries_[block].kept = true;
  entries_[block].tenant = tenant;
  tenants_.Join(tenant);
  ++counts_[tenant];
  ++kept_count_;
}

void RetentionBook::Discount(std::uint32_t block) {
  Entry& entry = entries_[block];
  entry.kept = false;
  const auto found = counts_.find(entry.tenant);
  ROOST_CHECK(found != counts_.end(), "block {} does not count", block);
  if (--found->second == 0) counts_.erase(found);
  --kept_count_;
  tenants_.Leave(entry.tenant);
}

}  // namespace roost::worker

#include "worker/cache/tenant_blocks.h"

#include "common/base/check.h"

namespace roost::worker {

TenantBlocks::TenantBlocks(std::uint32_t block_count) : tenants_(1), links_(block_count) {}

TenantId TenantBlocks::Join(std::string_view name) {
  std::uint32_t number = 0;
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    number = known->second;
  } else if (!name.empty()) {
    if (free_numbers_.empty()) {
      free_numbers_.push_back(static_cast<std::uint32_t>(tenants_.size()));
      tenants_.emplace_back();
    }
    number = free_numbers_.back();
    free_numbers_.pop_back();
    tenants_[number].name = name;
    by_name_.emplace(name, number);
  }
  Join(TenantId(number));
  return TenantId(number);
}

void TenantBlocks::Leave(TenantId id) {
  Tenant& tenant = tenants_[id.value()];
  ROOST_CHECK(tenant.user_count > 0, "tenant {} has no user", id.value());
  if (--tenant.user_count > 0 || id.value() == 0) return;
  ROOST_CHECK(tenant.top_count == 0, "tenant {} has blocks and no user", id.value());
  by_name_.erase(tenant.name);
  tenant.name.clear();
  free_numbers_.push_back(id.value());
}

std::optional<TenantId> TenantBlocks::Find(std::string_view name) const {
  if (name.empty()) return TenantId(0);
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return std::nullopt;
  return TenantId(known->second);
}

void TenantBlocks::AddTop(TenantId id, std::uint32_t block) {
  Tenant& tenant = tenants_[id.value()];
  links_[block] = {.before = kNone, .after = tenant.first_top};
  if (tenant.first_top != kNone) links_[tenant.first_top].before = block;
  tenant.first_top = block;
  ++tenant.top_count;
}

void TenantBlocks::RemoveTop(TenantId id, std::uint32_t block) {
  Tenant& tenant = tenants_[id.value()];
  const Links links = links_[block];
  if (links.before == kNone) {
    ROOST_CHECK(tenant.first_top == block, "block {} is no top of tenant {}", block, id.value());
    tenant.first_top = links.after;
  } else {
    links_[links.before].after = links.after;
  }
  if (links.after != kNone) links_[links.after].before = links.before;
  --tenant.top_count;
}

std::optional<std::uint32_t> TenantBlocks::FirstTop(TenantId tenant) const {
  const std::uint32_t first = tenants_[tenant.value()].first_top;
  if (first == kNone) return std::nullopt;
  return first;
}

}  // namespace roost::worker

#include <algorithm>

#include "worker/cache/claims.h"

namespace roost::worker {
namespace {

// Higher than the priority of a conversation that is expected back: a client has asked for this time.
constexpr std::uint32_t kLifetimePriority = 70;

}  // namespace

void Lifetimes::Renew(std::uint32_t block, std::uint32_t parent, Duration lifetime, TenantId tenant, Instant now) {
  if (entries_.empty()) entries_.resize(block_count_);
  if (tenant.value() >= tenants_.size()) tenants_.resize(tenant.value() + 1);
  End(block);
  Entry& entry = entries_[block];
  entry.lifetime = lifetime;
  entry.renewed_at = now;
  entry.tenant = tenant;
  ++count_;
  Link(&Entry::in_all, all_, block, parent);
  const bool has_parent = parent != kNoBlock && entries_[parent].tenant == tenant;
  Link(&Entry::in_tenant, tenants_[tenant.value()], block, has_parent ? parent : kNoBlock);
}

void Lifetimes::End(std::uint32_t block) {
  if (Of(block) == Duration::zero()) return;
  Entry& entry = entries_[block];
  Unlink(&Entry::in_all, all_, block);
  Unlink(&Entry::in_tenant, tenants_[entry.tenant.value()], block);
  entry.lifetime = {};
  --count_;
}

// As the next older one of `younger`, or as the youngest.
void Lifetimes::Link(Links Entry::*links, Ends& ends, std::uint32_t block, std::uint32_t younger) {
  const std::uint32_t older = younger == kNoBlock ? ends.youngest : (entries_[younger].*links).older;
  entries_[block].*links = {older, younger};
  (older == kNoBlock ? ends.oldest : (entries_[older].*links).younger) = block;
  (younger == kNoBlock ? ends.youngest : (entries_[younger].*links).older) = block;
}

void Lifetimes::Unlink(Links Entry::*links, Ends& ends, std::uint32_t block) {
  const auto [older, younger] = entries_[block].*links;
  (older == kNoBlock ? ends.oldest : (entries_[older].*links).younger) = younger;
  (younger == kNoBlock ? ends.youngest : (entries_[younger].*links).older) = older;
}

bool Lifetimes::IsSound() const {
  std::uint32_t in_tenants = 0;
  for (const Ends& ends : tenants_) in_tenants += CountInOrder(&Entry::in_tenant, ends).value_or(0);
  return CountInOrder(&Entry::in_all, all_) == count_ && in_tenants == count_;
}

// Nothing if a block with no lifetime is there, or one that was renewed later than the next.
std::optional<std::uint32_t> Lifetimes::CountInOrder(Links Entry::*links, const Ends& ends) const {
  std::uint32_t count = 0;
  Instant before;
  for (std::uint32_t block = ends.oldest; block != kNoBlock; block = (entries_[block].*links).younger) {
    if (Of(block) == Duration::zero() || RenewedAt(block) < before || ++count > count_) return std::nullopt;
    before = RenewedAt(block);
  }
  return count;
}

// ---- what requests do to them ----

// Front to back, as RetainAll.
void Claims::KeepAlive(std::span<const BlockId> blocks, std::span<const FrontLifetime> lifetimes, TenantId tenant) {
  bool has_room = true;
  std::uint32_t parent = kNoBlock;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    const std::uint32_t block = blocks[i].value();
    if (!tree_[block].ready) continue;
    Duration lifetime = lifetimes_.Of(block);
    for (const FrontLifetime& front : lifetimes) {
      if (i < front.block_count) lifetime = std::max(lifetime, front.duration);
    }
    if (lifetime == Duration::zero()) continue;
    while (has_room && !TryRetain(block, {kLifetimePriority, now_ + lifetime}, tenant)) {
      has_room = EndOldestLifetime(tenant);
    }
    refused_retentions_ += has_room ? 0 : 1;
    if (!has_room) continue;
    lifetimes_.Renew(block, parent, lifetime, TenantId(retained_.owner(block)), now_);
    parent = block;
  }
}

// Makes room for a lifetime of the tenant. False if there is none that was renewed earlier.
bool Claims::EndOldestLifetime(TenantId tenant) {
  const bool is_own = retained_count(tenant) >= retention_limit_;
  if (!is_own && retained_count() < all_retention_limit_) return false;
  const std::uint32_t block = is_own ? lifetimes_.OldestOf(tenant) : lifetimes_.Oldest();
  if (block == kNoBlock || lifetimes_.RenewedAt(block) == now_) return false;
  timers_.Clear(RetentionTimer(block));
  StopRetaining(block);
  Reorder(block);
  ++refused_retentions_;
  return true;
}

}  // namespace roost::worker

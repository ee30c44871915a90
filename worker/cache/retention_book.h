// Keeps track of the blocks that stay in the cache because of retention hints, and of the tenants that gave the hints.
// A tenant's hints keep at most a share of the pool; the cache asks before it keeps another block.
//
//   own    a block with a hint of a priority above the default whose time is not over
//   kept   a block that is own, or has a child that is kept: it can not be evicted before its child
//
//     b0 kept ─ b1 kept ─ b2 own       One hint for b2 keeps three blocks, and counts as three.
//        └───── b3
//
// A kept block counts for the tenant whose hint kept it first. That tenant stays a user of TenantBlocks meanwhile.
//
// Not thread-safe. Keep and Release are O(blocks that become or cease to be kept), everything else O(1). It takes 12
// bytes per block from the first Keep on, and none before.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

class RetentionBook {
 public:
  // `tenants` outlives it.
  RetentionBook(std::uint32_t block_count, double share_limit, TenantBlocks& tenants);

  // The blocks that further hints of the tenant may keep.
  [[nodiscard]] std::uint32_t RoomOf(TenantId tenant) const;

  [[nodiscard]] bool IsKept(std::uint32_t block) const { return !entries_.empty() && entries_[block].kept; }
  [[nodiscard]] bool IsOwn(std::uint32_t block) const { return !entries_.empty() && entries_[block].own; }
  [[nodiscard]] std::uint32_t kept_children(std::uint32_t block) const {
    return entries_.empty() ? 0 : entries_[block].kept_children;
  }
  // The number of kept blocks, and those that count for a tenant.
  [[nodiscard]] std::uint32_t kept_count() const { return kept_count_; }
  [[nodiscard]] std::uint32_t kept_count(TenantId tenant) const;

  // The block becomes own. `parent_of(block)` returns its parent, or kNone.
  template <typename ParentOf>
  void Keep(std::uint32_t block, TenantId tenant, ParentOf parent_of) {
    if (entries_.empty()) entries_.resize(block_count_);
    entries_[block].own = true;
    for (std::uint32_t kept = block; kept != kNone && !entries_[kept].kept; kept = parent_of(kept)) {
      Count(kept, tenant);
      if (const std::uint32_t parent = parent_of(kept); parent != kNone) ++entries_[parent].kept_children;
    }
  }
  // The block is own no more.
  template <typename ParentOf>
  void Release(std::uint32_t block, ParentOf parent_of) {
    entries_[block].own = false;
    for (std::uint32_t kept = block; kept != kNone && IsNeedless(kept); kept = parent_of(kept)) {
      Discount(kept);
      if (const std::uint32_t parent = parent_of(kept); parent != kNone) --entries_[parent].kept_children;
    }
  }

  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

 private:
  struct Entry {
    std::uint32_t kept_children = 0;
    TenantId tenant;
    bool own = false;
    bool kept = false;
  };

  // Kept without a reason.
  [[nodiscard]] bool IsNeedless(std::uint32_t block) const {
    const Entry& entry = entries_[block];
    return entry.kept && !entry.own && entry.kept_children == 0;
  }
  void Count(std::uint32_t block, TenantId tenant);
  void Discount(std::uint32_t block);

  const std::uint32_t block_count_;
  const std::uint32_t limit_;  // in blocks, for each tenant
  TenantBlocks& tenants_;
  BigVector<Entry> entries_;
  std::map<TenantId, std::uint32_t> counts_;  // of tenants with kept blocks
  std::uint32_t kept_count_ = 0;
};

}  // namespace roost::worker

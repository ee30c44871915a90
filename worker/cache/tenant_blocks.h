// Keeps for each tenant the blocks of the tree that its requests computed, so that they are found without a search.
//
// A tenant is a number while a request or a block of it is here: each holder of the number counts as its user, and the
// name and the number go with the last one. So there are never more tenants than blocks and requests.
//
//   root ─ a1 ─ a2 ─ b3       A block is a top if the block before it is not of its tenant, or there is none. The tops
//      └── b1 ─ b2            of a tenant are a list; everything else of it stands behind one of them. Here the tops of
//                             tenant a are a1, those of b are b1 and b3.
//
// Not thread-safe. Join by name is O(log tenants), everything else O(1). 8 bytes per block of the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"

namespace roost::worker {

// 0: requests without a tenant.
using TenantId = StrongId<struct TenantTag, std::uint32_t>;

class TenantBlocks {
 public:
  explicit TenantBlocks(std::uint32_t block_count);

  // One user more, which has the number until it leaves.
  [[nodiscard]] TenantId Join(std::string_view name);
  void Join(TenantId tenant) { ++tenants_[tenant.value()].user_count; }
  void Leave(TenantId tenant);

  // Valid while the tenant has a user.
  [[nodiscard]] const std::string& name(TenantId tenant) const { return tenants_[tenant.value()].name; }
  // Nothing when the tenant has no user.
  [[nodiscard]] std::optional<TenantId> Find(std::string_view name) const;
  [[nodiscard]] std::uint32_t user_count(TenantId tenant) const { return tenants_[tenant.value()].user_count; }
  // Those with a user.
  [[nodiscard]] std::size_t size() const { return by_name_.size(); }

  void AddTop(TenantId tenant, std::uint32_t block);
  void RemoveTop(TenantId tenant, std::uint32_t block);
  [[nodiscard]] std::optional<std::uint32_t> FirstTop(TenantId tenant) const;
  [[nodiscard]] std::uint32_t top_count(TenantId tenant) const { return tenants_[tenant.value()].top_count; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  struct Tenant {
    std::string name;
    std::uint32_t user_count = 0;  // 0: the number is free, unless it is that of requests without a tenant
    std::uint32_t first_top = kNone;
    std::uint32_t top_count = 0;
  };
  struct Links {
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
  };

  std::vector<Tenant> tenants_;  // by number
  std::vector<std::uint32_t> free_numbers_;
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  BigVector<Links> links_;  // of the tops, by block
};

}  // namespace roost::worker

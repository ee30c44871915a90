// Counts the requests of each tenant at workers, so that one tenant's load does not make others wait there. The queue
// at the router gives tenants turns (admission_queues.h), but what has been sent waits at a worker in the order of its
// priority. So requests of a tenant that has more at workers than its share go behind the others of their priority, and
// a tenant that has less need not wait at the router until workers have room for others.
//
// The share is an equal part of all requests at workers, among the tenants of the last minute. A single tenant always
// has its share.
//
// Not thread-safe. O(1) per request; each minute O(tenants).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_map>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace roost::router {

class TenantShares {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(1);
  static constexpr std::uint32_t kFree = 4;  // so few are never too many

  // One more is sent. Is it within the tenant's share?
  [[nodiscard]] bool OnSent(const std::string& tenant, Instant now) {
    Forget(now);
    Tenant& one = tenants_[tenant];
    one.seen = now;
    ++one.open;
    ++open_;
    return one.open <= ShareOf(open_, tenants_.size());
  }

  // True if one more is within the tenant's share. False for a single tenant, which has all.
  [[nodiscard]] bool HasShareLeft(const std::string& tenant) const {
    const auto found = tenants_.find(tenant);
    const std::uint64_t open = found == tenants_.end() ? 0 : found->second.open;
    const std::size_t count = tenants_.size() + (found == tenants_.end() ? 1 : 0);
    return count > 1 && open + 1 <= ShareOf(open_ + 1, count);
  }

  void OnEnded(const std::string& tenant) {
    const auto found = tenants_.find(tenant);
    ROOST_CHECK(found != tenants_.end() && found->second.open > 0, "a request of '{}' ends twice", tenant);
    --found->second.open;
    --open_;
  }

 private:
  struct Tenant {
    std::uint32_t open = 0;
    Instant seen;
  };

  [[nodiscard]] static std::uint64_t ShareOf(std::uint64_t open, std::size_t tenant_count) {
    return std::max<std::uint64_t>(kFree, open / tenant_count);
  }

  void Forget(Instant now) {
    if (now < next_look_) return;
    next_look_ = now + kMemory;
    for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
      const bool is_gone = tenant->second.open == 0 && now - tenant->second.seen >= kMemory;
      tenant = is_gone ? tenants_.erase(tenant) : std::next(tenant);
    }
  }

  std::unordered_map<std::string, Tenant> tenants_;
  std::uint64_t open_ = 0;
  Instant next_look_{};
};

}  // namespace roost::router

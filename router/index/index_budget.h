// The memory that all indexes of a router may take together. An index charges it before it allocates, and gives the
// charge back when it is destroyed.
//
// Only the single writer of these indexes changes it; any thread may read the counts. It outlives its indexes.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace roost::router {

class IndexBudget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  explicit IndexBudget(std::uint64_t limit_bytes = kUnlimited) : limit_bytes_(limit_bytes) {}

  // False, and nothing is taken, when more than `share` of the limit would then be in use. 0 < share ≤ 1.
  [[nodiscard]] bool TryTake(std::uint64_t bytes, double share = 1.0) {
    const double bound = share * static_cast<double>(limit_bytes_);
    if (limit_bytes_ != kUnlimited && static_cast<double>(used_bytes() + bytes) > bound) return false;
    Take(bytes);
    return true;
  }
  // Takes the bytes even beyond the limit, for the small amounts that an index can not do without.
  void Take(std::uint64_t bytes) { used_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void Give(std::uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
};

}  // namespace roost::router

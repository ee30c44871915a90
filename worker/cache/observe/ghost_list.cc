#include "worker/cache/observe/ghost_list.h"

#include <optional>

#include "common/base/check.h"

namespace roost::worker {

GhostList::GhostList(std::uint32_t capacity) : capacity_(capacity), ring_(capacity, capacity) {
  ROOST_CHECK(capacity > 0);
}

void GhostList::Remember(std::uint64_t key) {
  Forget(key);
  if (ring_.Holds(next_)) ring_.Erase(next_);
  ring_.Put(next_, key);
  next_ = next_ + 1 == capacity_ ? 0 : next_ + 1;
}

void GhostList::Forget(std::uint64_t key) {
  if (const std::optional<std::uint32_t> slot = ring_.Find(key)) ring_.Erase(*slot);
}

}  // namespace roost::worker

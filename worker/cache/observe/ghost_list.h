// The ghosts: the blocks that were evicted last. If the key of a prompt block is here, the block was evicted recently
// and a larger pool would have kept it; if not, the block is new, or was evicted long ago.
//
// It remembers the keys of the last N evictions, except those that were stored again since. A key is half of a block's
// hash, BlockHash::low. Two blocks with the same key are taken for one, which only makes a count wrong.
//
//   ring of keys   [k5][k6][k2][k3][k4]     Remember overwrites the oldest
//                          └ next
//
// Not thread-safe. Every operation is O(1) expected. 19 bytes per entry; nothing is allocated after construction.
#pragma once

#include <cstdint>

#include "common/prefix/keyed_slots.h"

namespace roost::worker {

class GhostList {
 public:
  // The block count of the pool is a good capacity: then the ghosts are the blocks that a pool of twice the size would
  // have kept.
  explicit GhostList(std::uint32_t capacity);

  // A block with this key was evicted.
  void Remember(std::uint64_t key);

  // A block with this key was stored: it is no longer a ghost.
  void Forget(std::uint64_t key);

  // Prefetches what a later Remember reads.
  void Prefetch(std::uint64_t key) const {
    ring_.PrefetchKey(key);
    ring_.Prefetch(next_);
  }

  [[nodiscard]] bool Contains(std::uint64_t key) const { return ring_.Find(key).has_value(); }

  [[nodiscard]] std::uint32_t size() const { return ring_.size(); }

 private:
  const std::uint32_t capacity_;
  std::uint32_t next_ = 0;
  KeyedSlots<std::uint64_t> ring_;
};

}  // namespace roost::worker

// Block hash → block, for a number of entries that is fixed at the start: it never grows, so no operation is ever slow.
// Open addressing with linear probing; erasing shifts later entries back, so there are no tombstones and a table that
// has churned for a year probes as little as a fresh one (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
// The bucket mixes in the process's seed (see BlockHashHasher).
//
// Not thread-safe. Find, Insert and Erase are O(1) expected; at most three quarters of the slots are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

class HashIndex {
 public:
  explicit HashIndex(std::uint32_t capacity);

  [[nodiscard]] std::optional<BlockId> Find(BlockHash hash) const;

  // `hash` is not in the table, and the table is not at its capacity.
  void Insert(BlockHash hash, BlockId block);

  // `hash` is in the table.
  void Erase(BlockHash hash);

  // Starts the memory read of a Find to come.
  void Prefetch(BlockHash hash) const { __builtin_prefetch(&slots_[Home(hash)]); }

  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  struct Slot {
    BlockHash hash;
    std::uint32_t block = kEmpty;
  };
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFFU;

  [[nodiscard]] std::size_t Home(BlockHash hash) const { return hasher_(hash) & mask_; }
  // Where `hash` is, or the empty slot at which the search for it ends.
  [[nodiscard]] std::size_t Probe(BlockHash hash) const;

  BlockHashHasher hasher_;
  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace roost::worker

// Block hash → block, for a number of entries that is fixed at the start: the table never grows, so no operation is
// ever slow. Open addressing with linear probing. Erasing shifts later entries back, so there are no tombstones, and an
// old table probes as little as a new one (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
//
// A slot holds 32 bits of the mixed hash, its tag, and the block; eight slots are a cache line. Two hashes may have the
// same tag, so the caller checks whether a block is the right one. The tag mixes in the process's seed (see
// BlockHashHasher), and its low bits are the home slot.
//
// Not thread-safe. Find, Insert and Erase are O(1) expected; at most three quarters of the slots are in use: 11 to 21
// bytes per entry of the capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/base/prefetch.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

class HashIndex {
 public:
  // At most 2^31 entries.
  explicit HashIndex(std::uint32_t capacity);

  // The block under `hash` for which `is_it(block)` is true.
  template <typename IsIt>
  [[nodiscard]] std::optional<BlockId> Find(BlockHash hash, IsIt&& is_it) const {
    const std::uint32_t tag = TagOf(hash);
    for (std::size_t place = tag & mask_; slots_[place].block != kEmpty; place = (place + 1) & mask_) {
      if (slots_[place].tag == tag && is_it(BlockId(slots_[place].block))) return BlockId(slots_[place].block);
    }
    return std::nullopt;
  }

  // The block is not in the table, and the table is not at its capacity.
  void Insert(BlockHash hash, BlockId block);

  // The block is in the table under `hash`.
  void Erase(BlockHash hash, BlockId block);

  // Prefetches what a later Find reads.
  void Prefetch(BlockHash hash) const { roost::Prefetch(&slots_[TagOf(hash) & mask_]); }

  // The block that Find(hash) would check first, if it is near its home: for prefetching.
  [[nodiscard]] std::optional<BlockId> Likely(BlockHash hash) const {
    constexpr std::size_t kNear = 4;
    const std::uint32_t tag = TagOf(hash);
    for (std::size_t i = 0; i < kNear; ++i) {
      const Slot& slot = slots_[(tag + i) & mask_];
      if (slot.block == kEmpty) break;
      if (slot.tag == tag) return BlockId(slot.block);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t block = kEmpty;
  };
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFFU;

  [[nodiscard]] std::uint32_t TagOf(BlockHash hash) const { return static_cast<std::uint32_t>(hasher_(hash)); }

  BlockHashHasher hasher_;
  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::size_t mask_;
  BigVector<Slot> slots_;
};

}  // namespace roost::worker

// Bookkeeping of the minimum hold: how old blocks are, and which of them are held.
//
//   young     a ready block from when it is stored until `min_hold` later
//   held      an idle block that the cache keeps because it is young, or because a child of it is held; see PrefixCache
//   reserved  a young block that was held and is now in use: it is held again after that
//
//     b0 old ─ b1 young ─ b2 young      All three are held: b2 and b1 because they are young, b0 because of b1.
//                                       When b2 is old it is released, then b1 when it is old, then b0.
//
// A child is held before its parent, and released before it. So the held part of a prefix can be given up from back to
// front, and everything else in the cache can be evicted without it.
//
// Not thread-safe. Every operation is O(1); Expire amortised over Begin. It takes 32 bytes per block from the first
// Begin on, and none before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "worker/cache/timer_wheel.h"

namespace roost::worker {

class HoldBook {
 public:
  // With a `min_hold` of zero no block is ever young.
  HoldBook(std::uint32_t block_count, Duration min_hold);

  // `block` is stored. It is young from now on, and older than all blocks that begin later.
  void Begin(BlockId block, Instant now);
  // `block`, which is not held, was evicted.
  void Forget(BlockId block);
  // Appends the blocks that are no longer young to `grown`, the oldest first.
  void Expire(Instant now, std::vector<BlockId>& grown) { timers_.Expire(now, grown); }

  // `block`, which has this parent, is held or released.
  void Hold(BlockId block, std::optional<BlockId> parent);
  void LetGo(BlockId block, std::optional<BlockId> parent);

  void Reserve(BlockId block) { entries_[block.value()].reserved = true; }
  void EndReservation(BlockId block) { entries_[block.value()].reserved = false; }

  [[nodiscard]] bool IsYoung(BlockId block) const { return timers_.IsSet(block); }
  [[nodiscard]] bool IsHeld(BlockId block) const { return !entries_.empty() && entries_[block.value()].held; }
  [[nodiscard]] bool IsReserved(BlockId block) const { return !entries_.empty() && entries_[block.value()].reserved; }
  // The number of a block's children that are held.
  [[nodiscard]] std::uint32_t held_children(BlockId block) const {
    return entries_.empty() ? 0 : entries_[block.value()].held_children;
  }
  // The number of blocks that began before this one, which must have begun. Unique.
  [[nodiscard]] std::uint64_t AgeNumber(BlockId block) const { return entries_[block.value()].number; }
  // The number of blocks that are held.
  [[nodiscard]] std::uint32_t held_count() const { return held_count_; }
  [[nodiscard]] Duration min_hold() const { return min_hold_; }

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::uint32_t held_children = 0;
    bool held = false;
    bool reserved = false;
  };

  const std::uint32_t block_count_;
  const Duration min_hold_;
  TimerWheel timers_;  // set while a block is young
  BigVector<Entry> entries_;
  std::uint64_t begun_count_ = 0;
  std::uint32_t held_count_ = 0;
};

}  // namespace roost::worker

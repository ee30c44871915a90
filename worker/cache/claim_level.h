// One level of the ladder of claims (Claims): its blocks, those that it keeps because they come before such a block,
// and how many there are for each owner. A level's limit is a share of the pool for each owner.
//
//   own      the claim is the block's own
//   claimed  the level keeps the block: for a claim of its own, or because a child of it is claimed
//
//     b0 claimed ─ b1 claimed ─ b2 claimed, own      One claim of b2 keeps three blocks, and counts as three.
//        └───────── b3
//
// A block counts while it is own or claimed, for the owner of its first claim. 12 bytes per block from the first claim
// on, and none before.
//
// Not thread-safe. Every operation is O(1).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/big_vector.h"
#include "worker/cache/structures/sibling_tree.h"

namespace roost::worker {

inline constexpr std::uint32_t kNoBlock = SiblingTree::kNone;

class ClaimLevel {
 public:
  explicit ClaimLevel(std::uint32_t block_count) : block_count_(block_count) {}

  void SetOwn(std::uint32_t block, std::uint32_t owner);
  void ClearOwn(std::uint32_t block);
  // `block` is not claimed; `parent` is its parent, or kNoBlock.
  void Claim(std::uint32_t block, std::uint32_t parent, std::uint32_t owner);
  // `block` is claimed.
  void Unclaim(std::uint32_t block, std::uint32_t parent);

  [[nodiscard]] bool IsOwn(std::uint32_t block) const { return !entries_.empty() && entries_[block].own; }
  [[nodiscard]] bool IsClaimed(std::uint32_t block) const { return !entries_.empty() && entries_[block].claimed; }
  [[nodiscard]] bool IsCounted(std::uint32_t block) const { return IsOwn(block) || IsClaimed(block); }
  // Claimed without a reason.
  [[nodiscard]] bool IsNeedless(std::uint32_t block) const {
    return IsClaimed(block) && !entries_[block].own && entries_[block].claimed_children == 0;
  }
  [[nodiscard]] std::uint32_t claimed_children(std::uint32_t block) const {
    return entries_.empty() ? 0 : entries_[block].claimed_children;
  }
  // The owner of a block that counts.
  [[nodiscard]] std::uint32_t owner(std::uint32_t block) const { return entries_[block].owner; }
  // The blocks that count for an owner, those that are claimed, and those with a claim of their own.
  [[nodiscard]] std::uint32_t count(std::uint32_t owner) const { return owner < counts_.size() ? counts_[owner] : 0; }
  [[nodiscard]] std::uint32_t claimed_count() const { return claimed_count_; }
  [[nodiscard]] std::uint32_t own_count() const { return own_count_; }

 private:
  struct Entry {
    std::uint32_t claimed_children = 0;
    std::uint32_t owner = 0;
    bool own = false;
    bool claimed = false;
  };

  void Count(std::uint32_t block, std::uint32_t owner);

  const std::uint32_t block_count_;
  BigVector<Entry> entries_;
  std::vector<std::uint32_t> counts_;  // by owner
  std::uint32_t claimed_count_ = 0;
  std::uint32_t own_count_ = 0;
};

}  // namespace roost::worker

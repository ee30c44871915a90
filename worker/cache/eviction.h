// Which idle block goes when room is needed. The prefix cache tells the policy which blocks are idle (ready, without
// references) and asks for the next victim; the policy knows neither hashes nor tokens.
//
// Only leaves may go, or a later block would outlive an earlier one. A holder of a block holds all blocks before it
// and releases back to front, so the cache promises: **of a chain, later blocks are inserted before earlier ones**,
// and a block is idle only if all blocks after it are. A policy that orders by insertion gets leaves for free.
//
// Not thread-safe. All operations are O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace roost::worker {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // `block` became idle.
  virtual void Insert(BlockId block) = 0;

  // `block` was idle and is no longer: it is used again, or was evicted.
  virtual void Erase(BlockId block) = 0;

  // The idle leaf to evict next; nothing when no block is idle. Does not change anything.
  [[nodiscard]] virtual std::optional<BlockId> Victim() const = 0;
};

// Least recently used: a list in the order in which blocks became idle, oldest first. Its head is always a leaf,
// because a child stands before its parent; and it is the leaf that was used least recently, whatever the tree.
class LruEviction final : public EvictionPolicy {
 public:
  explicit LruEviction(std::uint32_t block_count);

  void Insert(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim() const override;

 private:
  // A ring through all idle blocks and one more entry, number block_count, that is both ends. A block outside the list
  // points to itself.
  struct Links {
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };

  [[nodiscard]] std::uint32_t ends() const { return static_cast<std::uint32_t>(links_.size() - 1); }

  std::vector<Links> links_;
};

}  // namespace roost::worker

// Chooses the idle block that is evicted when space is needed. The prefix cache tells the policy which blocks are idle
// (ready, without references, neither pinned nor held) and how they were used, and asks for the next victim.
//
// Only leaves may be evicted; otherwise a later block would outlive an earlier one. The cache tells whether a block is
// a leaf and when it becomes one; LeafLists keeps the order under that rule. An idle block never gains a child. The
// blocks of one request are inserted together, later ones before earlier ones, under one request number.
//
// Idle blocks are divided into groups (tenants with a share of the pool); the caller asks for a victim of one group. A
// policy may use what it learns of one group for others; the class-aware one does not.
//
// Not thread-safe. All operations are O(1) for any number of blocks; Victim amortised over the inserts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "worker/cache/structures/leaf_lists.h"

namespace roost::worker {

// A group of idle blocks: 0 … group_count - 1.
using EvictionGroup = StrongId<struct EvictionGroupTag, std::uint32_t>;

enum class BlockOrigin : std::uint8_t { kPrompt, kDecode };

// The request that releases a block.
struct RequestUse {
  std::uint64_t number = 0;  // requests that released blocks before this one: the policies' clock
  std::uint32_t prompt_token_count = 0;
  std::uint32_t cached_token_count = 0;  // of the prompt
  std::uint32_t output_token_count = 0;
};

// The last use of a block.
struct BlockUse {
  std::uint64_t key = 0;        // half of its hash: identifies its content, also after an eviction
  std::uint32_t position = 0;   // in blocks from the root
  std::uint32_t hit_count = 0;  // requests that found it in the cache since it was stored
  BlockOrigin origin = BlockOrigin::kPrompt;
  EvictionGroup group;
  RequestUse request;
};

// The time to compute a block again if it is evicted, relative to the first block of a prompt. It rises with the tokens
// before the block, to all of which attention looks back.
struct RecomputeCost {
  float growth = 0;  // per block before it, not negative; 0: all blocks cost the same

  [[nodiscard]] float At(std::uint32_t position) const { return 1 + growth * static_cast<float>(position); }
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // `block` became idle.
  virtual void Insert(BlockId block, const BlockUse& use, TreePlace place) = 0;

  // `block`, which is idle, has lost its last child.
  virtual void BecomeLeaf(BlockId block) = 0;

  // `block` is not idle any more: a request uses it again, or it is held.
  virtual void Erase(BlockId block) = 0;

  // The idle leaf of the group that should be evicted next; empty when the group has none. It stays until it is evicted
  // or erased.
  [[nodiscard]] virtual std::optional<BlockId> Victim(EvictionGroup group) = 0;

  // Says what blocks cost from now on. Until then all cost the same. A policy that only counts hits ignores it.
  virtual void SetRecomputeCost(RecomputeCost /*cost*/) {}

  // Prefetches what a later Erase reads.
  virtual void Prefetch(BlockId /*block*/) const {}
  // Prefetches what a later Insert of a block with this key reads.
  virtual void PrefetchInsert(std::uint64_t /*key*/) const {}

  // `block`, an idle leaf, is evicted.
  virtual void Evict(BlockId block) = 0;
};

// Least recently used: the order in which blocks became idle, oldest first.
class LruEviction final : public EvictionPolicy {
 public:
  explicit LruEviction(std::uint32_t block_count, std::uint32_t group_count = 1);

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override;
  void BecomeLeaf(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override;
  void Prefetch(BlockId block) const override { lists_.Prefetch(block); }
  void Evict(BlockId block) override;

 private:
  LeafLists lists_;  // one per group
};

}  // namespace roost::worker

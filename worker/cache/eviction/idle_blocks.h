// All idle blocks that may be evicted, and the order of their eviction:
//
//   1  blocks with a retention priority below the default: the lowest first; of equals the one idle for longest
//   2  blocks with the default priority, in the order of the eviction policy
//   3  blocks with a priority above the default: the lowest first
//   4  blocks that a waiting request will hit
//
// and, separately,
//
//   5  blocks that are held because they are young: the oldest first
//
// A leaf always goes before its parent, whatever their priorities, so a parent is never evicted before its child (see
// LeafLists).
//
// Each group (tenant) has this order; the caller chooses the group. Pinned blocks are not here.
//
// Not thread-safe. Every operation is O(1); Victim amortised over the inserts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/structures/leaf_lists.h"

namespace roost::worker {

// Retention priorities are 0 to 100. A block of this one is left to the eviction policy.
inline constexpr std::uint32_t kMaxRetentionPriority = 100;
inline constexpr std::uint32_t kDefaultRetentionPriority = 35;

// The place of an idle block in the order: its retention priority, or one of these.
inline constexpr std::uint8_t kWantedRank = kMaxRetentionPriority + 1;
inline constexpr std::uint8_t kHeldRank = kWantedRank + 1;

class IdleBlocks {
 public:
  IdleBlocks(std::uint32_t block_count, std::uint32_t group_count, std::unique_ptr<EvictionPolicy> policy);

  void SetRecomputeCost(RecomputeCost cost) { policy_->SetRecomputeCost(cost); }

  // `block` is idle, with this retention priority.
  void Insert(BlockId block, const BlockUse& use, TreePlace place, std::uint32_t priority);
  // `block` is idle, and a waiting request will hit it.
  void InsertWanted(BlockId block, EvictionGroup group, TreePlace place);
  // `block` is idle and held. The lower its number, which is unique, the older it is.
  void InsertHeld(BlockId block, EvictionGroup group, TreePlace place, std::uint64_t age_number);

  void BecomeLeaf(BlockId block);
  // `block` is used again, or pinned, or is about to be inserted in another way.
  void Erase(BlockId block);

  // The blocks of the order above that may be taken: 1 to 3, 4, or 5.
  enum class Reach : std::uint8_t { kUnwanted, kWanted, kHeld };
  // The next block of the group to evict.
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group, Reach reach);
  void Evict(BlockId block);

  // Prefetches what a later Erase reads.
  void Prefetch(BlockId block) const {
    lists_.Prefetch(block);
    policy_->Prefetch(block);
  }

  // Prefetches what a later Insert of a block with this key reads.
  void PrefetchInsert(std::uint64_t key) const { policy_->PrefetchInsert(key); }

 private:
  // Lists of one group, one per rank.
  static constexpr std::uint32_t kListsPerGroup = kHeldRank + 1;

  [[nodiscard]] std::optional<BlockId> FirstRetained(EvictionGroup group, std::uint32_t first, std::uint32_t last);
  void NoteInUse(std::uint32_t list);

  LeafLists lists_;
  // Per list: may it hold a leaf? A bit that turns out to be wrong is cleared until a block comes. Kept as words, so
  // that the lists in use are found without looking at every list.
  std::vector<std::uint64_t> in_use_;
  std::unique_ptr<EvictionPolicy> policy_;
};

}  // namespace roost::worker

// The reasons to keep a block, as one ladder. A block has at most one claim of each level; the highest one decides its
// rank in the order of evictions (IdleBlocks), where a block always goes before its parent.
//
//   level     claimed by                        ends                             share that it may fill
//   in use    the block table of a request      when that releases the block     all
//   pinned    an operator, by the block's hash  at its end, or by Unpin          pinned_share_limit of the pool
//   held      the minimum hold                  `min_hold` after it was stored   held_share_limit of a group's share
//   wanted    a waiting request                 by Unwant                        all
//   retained  a request's hint, of a priority   at its end, or when the session  above the default priority:
//             from 0 to 100, or a lifetime      comes back                       retained_share_limit for each tenant
//
// A block in use is not idle, a pinned one is never evicted, and a held one only by HeldVictim. When any other claim of
// an idle block ends, the block counts as used at that time if its rank changes. Pins, holds and retentions above the
// default priority also keep the blocks before the claimed one (ClaimLevel).
//
// Pinned. A pin is by hash and may come before its block, so it has its end in a table of its own (PinTable), and
// counts towards the limit from the start. A block with a pin is pinned, or its pin was refused, because the blocks
// before it had no room. A pinned block's parent is pinned.
//
// Held. A block is young until `min_hold` after it was stored. A block that becomes idle while it is young is held
// until it is old, with the blocks before it. The claimed blocks leave space for requests: they fill at most
// held_share_limit of the unpinned blocks of each group's share. If there is no space for a block and those before it,
// it is not held. So the blocks that came first are held, and a flood of new blocks only evicts itself. While a held
// block is in use it is not held, but it keeps its place until it is old. (Two cases exceed the limit: blocks before a
// held one that were in use when it became held, and held blocks whose pin ends.)
//
// Retained. A prefix is retained from its front on as far as the tenant, and all tenants (kMostRetainedShare), have
// room; the blocks after that are like any other. The higher priority and the later end of two hints apply.
//
// A lifetime is a retention that every request begins anew when it releases the block, until it has ended once. It does
// not end when a session comes back. One that has no room takes it from the lifetime that was begun anew the longest
// ago: of its tenant, where that has filled its share, otherwise of all. So an unused promise does not
// displace a used one.
//
// Groups. Blocks that a group (a tenant with a share of the pool) does not use are lent to others, and come back as
// those release them. To make space for a group, blocks are evicted in this order: its own, if it has more than its
// share; those of the group that is the furthest over its share; its own; those of the group that is the closest to its
// share. Wanted blocks of any group go after the unwanted blocks of all groups. A share is a limit of the ready blocks
// of a group, whatever their claims.
//
// Not thread-safe. A claim or its end is O(1) per block that it affects, Victim amortised over the blocks that became
// idle.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/block_tree.h"
#include "worker/cache/claim_level.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/idle_blocks.h"
#include "worker/cache/prefix_cache_types.h"
#include "worker/cache/structures/timer_wheel.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

// The pinned blocks, by hash: blocks in the cache, and blocks that will be pinned once they are computed.
//
// Not thread-safe. Contains is O(1); Add, Remove and TakeExpired O(hashes · log pins). Bounded by what the caller adds.
class PinTable {
 public:
  // Pins `hash` until `end`, or for good. Replaces an earlier pin of it.
  void Add(BlockHash hash, std::optional<Instant> end);

  void Remove(BlockHash hash);

  [[nodiscard]] bool Contains(BlockHash hash) const { return !pins_.empty() && pins_.contains(hash); }
  [[nodiscard]] std::size_t size() const { return pins_.size(); }

  // Removes the pins that have ended, and appends their hashes: the latest end first, and of equal ends the one added
  // last. So a prefix that was added front to back comes back to front.
  void TakeExpired(Instant now, std::vector<BlockHash>& expired);

  // Removes all pins, and appends their hashes in no particular order.
  void TakeAll(std::vector<BlockHash>& hashes);

 private:
  using Ends = std::multimap<Instant, BlockHash>;

  std::unordered_map<BlockHash, std::optional<Ends::iterator>, BlockHashHasher> pins_;
  Ends ends_;
};

// The lifetimes of blocks, in the order in which they were begun anew, for each tenant and for all:
//
//   oldest  [y2] [y1] [y0]  [x3] [x2] [x1] [x0]  youngest      Prefix x was used after prefix y.
//
// A prefix's end is older than its front, so what gives way first is an end.
//
// Not thread-safe. Every operation is O(1). 40 bytes per block from the first lifetime on, and none before.
class Lifetimes {
 public:
  explicit Lifetimes(std::uint32_t block_count) : block_count_(block_count) {}

  [[nodiscard]] bool empty() const { return count_ == 0; }
  // Zero: none.
  [[nodiscard]] Duration Of(std::uint32_t block) const {
    return entries_.empty() ? Duration::zero() : entries_[block].lifetime;
  }
  [[nodiscard]] Instant RenewedAt(std::uint32_t block) const { return entries_[block].renewed_at; }

  // Begins the block's lifetime anew, for the tenant; `parent`, or kNoBlock, has just been renewed.
  void Renew(std::uint32_t block, std::uint32_t parent, Duration lifetime, TenantId tenant, Instant now);
  void End(std::uint32_t block);

  // kNoBlock: there is none.
  [[nodiscard]] std::uint32_t Oldest() const { return all_.oldest; }
  [[nodiscard]] std::uint32_t OldestOf(TenantId tenant) const {
    return tenant.value() < tenants_.size() ? tenants_[tenant.value()].oldest : kNoBlock;
  }

  // Every block with a lifetime is in both orders. O(blocks).
  [[nodiscard]] bool IsSound() const;

 private:
  struct Links {
    std::uint32_t older = kNoBlock;
    std::uint32_t younger = kNoBlock;
  };
  struct Ends {
    std::uint32_t oldest = kNoBlock;
    std::uint32_t youngest = kNoBlock;
  };
  struct Entry {
    Duration lifetime{};
    Instant renewed_at;
    Links in_all;
    Links in_tenant;
    TenantId tenant;
  };

  void Link(Links Entry::*links, Ends& ends, std::uint32_t block, std::uint32_t younger);
  void Unlink(Links Entry::*links, Ends& ends, std::uint32_t block);
  [[nodiscard]] std::optional<std::uint32_t> CountInOrder(Links Entry::*links, const Ends& ends) const;

  const std::uint32_t block_count_;
  BigVector<Entry> entries_;  // by block
  std::uint32_t count_ = 0;
  Ends all_;
  std::vector<Ends> tenants_;  // by number
};

// All tenants together retain at most this share of the pool, or retained_share_limit where that is more.
inline constexpr double kMostRetainedShare = 0.5;

class Claims {
 public:
  // `tree`, `pool` and `tenants` outlive it.
  Claims(BlockTree& tree, const BlockPool& pool, TenantBlocks& tenants, const CacheOptions& options,
         std::unique_ptr<EvictionPolicy> eviction);

  // Sets the time, and ends the claims whose time is over.
  void AdvanceTo(Instant now);

  // ---- what happens to a block ----

  // It came into the tree, in use.
  void OnStored(std::uint32_t block);
  // It was idle, and is in use.
  void OnUsed(std::uint32_t block) { TakeOut(block); }
  // The request `use` released it, and it is idle now. Every idle block before it is pinned.
  void OnIdle(std::uint32_t block, const RequestUse& use);
  // It lost a child.
  void OnChildLost(std::uint32_t block);
  // It was idle, and was chosen as a victim, or is a useless leaf.
  void OnEvicted(std::uint32_t block);
  // It was idle, and leaves the tree otherwise.
  void OnDiscarded(std::uint32_t block) { TakeOut(block); }
  // It leaves the tree, after all else.
  void OnRemoved(std::uint32_t block);
  // A request with this number releases blocks.
  void OnRelease(std::uint64_t request) { latest_request_ = std::max(latest_request_, request); }

  [[nodiscard]] bool IsIdle(std::uint32_t block) const {
    return tree_[block].ready && pool_.references(BlockId(block)) == 0;
  }

  // ---- the order of evictions ----

  // Says what blocks cost to compute again from now on; until then all cost the same.
  void SetRecomputeCost(RecomputeCost cost) { idle_.SetRecomputeCost(cost); }

  // The next block to evict for the group, that is neither pinned nor held.
  [[nodiscard]] std::optional<std::uint32_t> Victim(EvictionGroup group);
  // The next held block to evict for the group.
  [[nodiscard]] std::optional<std::uint32_t> HeldVictim(EvictionGroup group);

  // ---- retention ----

  // A request that releases `block` wants it kept. `block` is in use, or about to be idle.
  void Retain(std::uint32_t block, const BlockRetention& retention, TenantId tenant);
  // The same for all blocks of a request, with the lifetimes of its prompt's front; renews those that the blocks have.
  void RetainAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention,
                 std::span<const FrontLifetime> lifetimes);
  // The session is back: ends the retention that its last turn asked for `last` and the blocks before it.
  void EndRetention(std::uint32_t last, const RequestRetention& retention);

  // ---- wants ----

  void Want(std::uint32_t block);
  void Unwant(std::uint32_t block);

  // ---- pins ----

  // Pins these blocks of one chain, front to back, until `end`: those that are ready now, the others once they are
  // ready. Blocks over the limit are refused and counted. Pinning a pinned block sets a new end.
  void Pin(std::span<const BlockHash> hashes, std::optional<Instant> end);
  // Ends the pins of these blocks, given front to back. A block stays pinned while a later block of its chain is
  // pinned, with or without a pin of its own, and counts towards the limit either way.
  void Unpin(std::span<const BlockHash> hashes);
  // Ends all pins. O(pins).
  void UnpinAll();
  // Counts how many of these blocks are pinned, will be pinned, or are not; each counts once. O(hashes).
  [[nodiscard]] PinCounts PinsOf(std::span<const BlockHash> hashes) const;
  // Pins a block that has just got its hash, if there is a pin of it.
  void PinIfAwaited(std::uint32_t block);
  // Ends the pin of a block that leaves the tree. The pin stays in the table, for a block with the same hash.
  void EndPin(std::uint32_t block);
  // Nothing is left of the pin; its block, if there is one, leaves the tree next.
  void ForgetPin(BlockHash hash) { pins_.Remove(hash); }

  // ---- what it tells ----

  // Idle blocks that Victim returns, one after the other.
  [[nodiscard]] std::uint32_t evictable_count() const {
    return pool_.idle_count() - idle_pinned_ - held_.claimed_count();
  }
  [[nodiscard]] bool IsEvictable(std::uint32_t block) const {
    return IsIdle(block) && !IsPinned(block) && !IsHeld(block);
  }
  [[nodiscard]] bool IsHeld(std::uint32_t block) const { return held_.IsClaimed(block); }
  [[nodiscard]] bool IsPinned(std::uint32_t block) const { return pinned_.IsClaimed(block); }
  [[nodiscard]] std::uint32_t held_count() const { return held_.claimed_count(); }
  [[nodiscard]] std::uint32_t pinned_count() const { return pinned_.claimed_count(); }
  [[nodiscard]] std::uint32_t retained_count() const { return retained_.claimed_count(); }
  [[nodiscard]] std::uint32_t retained_count(TenantId tenant) const { return retained_.count(tenant.value()); }
  [[nodiscard]] std::uint32_t group_count() const { return static_cast<std::uint32_t>(groups_.size()); }
  [[nodiscard]] std::uint32_t ready_count_of(EvictionGroup group) const { return groups_[group.value()].ready_count; }
  [[nodiscard]] Duration min_hold() const { return min_hold_; }
  [[nodiscard]] std::uint64_t refused_pins() const { return refused_pins_; }
  [[nodiscard]] std::uint64_t refused_retentions() const { return refused_retentions_; }

  // Prefetches what a later OnUsed or OnIdle reads.
  void Prefetch(BlockId block) const { idle_.Prefetch(block); }
  void PrefetchIdle(BlockHash hash) const { idle_.PrefetchInsert(hash.low); }

  // Checks everything that this header says must hold.
  [[nodiscard]] Result<void> Check() const;

 private:
  // A group's share of the pool, in blocks, and how many of it are ready.
  struct Group {
    std::uint32_t share = 0;
    std::uint32_t ready_count = 0;
  };

  void MakeEvictable(std::uint32_t block, const RequestUse& use);
  void TakeOut(std::uint32_t block);
  void Reorder(std::uint32_t block);
  [[nodiscard]] std::uint8_t RankOf(std::uint32_t block) const;
  [[nodiscard]] TreePlace PlaceOf(std::uint32_t block) const;
  [[nodiscard]] BlockUse UseOf(std::uint32_t block, const RequestUse& use) const;
  [[nodiscard]] RequestUse LatestUse(std::uint32_t block) const;
  [[nodiscard]] std::optional<std::uint32_t> FirstVictim(EvictionGroup group, IdleBlocks::Reach reach);
  [[nodiscard]] std::int64_t EvictionOrder(EvictionGroup giver, EvictionGroup group) const;

  [[nodiscard]] TimerId RetentionTimer(std::uint32_t block) const { return TimerId(block); }
  [[nodiscard]] TimerId HoldTimer(std::uint32_t block) const { return TimerId(tree_.size() + block); }
  [[nodiscard]] bool IsYoung(std::uint32_t block) const { return holds() && timers_.IsSet(HoldTimer(block)); }
  [[nodiscard]] bool holds() const { return min_hold_ > Duration::zero(); }

  [[nodiscard]] bool ShouldHold(std::uint32_t block);
  [[nodiscard]] std::uint32_t HoldNeed(std::uint32_t block) const;
  void Hold(std::uint32_t block);
  void EndHold(std::uint32_t block);
  void EndNeedlessHolds(std::uint32_t last);
  void EndOwnHold(std::uint32_t block);

  [[nodiscard]] bool TryRetain(std::uint32_t block, const BlockRetention& retention, TenantId tenant);
  [[nodiscard]] bool HasRoomToRetain(std::uint32_t block, TenantId tenant) const;
  void StopRetaining(std::uint32_t block);
  void KeepAlive(std::span<const BlockId> blocks, std::span<const FrontLifetime> lifetimes, TenantId tenant);
  [[nodiscard]] bool EndOldestLifetime(TenantId tenant);
  void EndRetentionIf(std::uint32_t block, const BlockRetention& retention);

  [[nodiscard]] std::size_t PinCount() const { return pins_.size() + pinned_.claimed_count() - pinned_.own_count(); }
  [[nodiscard]] bool HasRoomToPin(BlockHash hash) const;
  void PinByHash(std::uint32_t block);
  [[nodiscard]] bool PinParentsOf(std::uint32_t block);
  void PinBlock(std::uint32_t block);
  void UnpinBlock(std::uint32_t block);
  void EndPinOf(BlockHash hash);

  [[nodiscard]] Result<void> CheckLevel(const ClaimLevel& level) const;
  [[nodiscard]] Result<void> CheckBlock(std::uint32_t block) const;
  [[nodiscard]] Result<void> CheckHold(std::uint32_t block) const;
  [[nodiscard]] Result<void> CheckTotals() const;

  BlockTree& tree_;
  const BlockPool& pool_;
  TenantBlocks& tenants_;
  const Duration min_hold_;
  const double held_share_limit_;
  const std::uint32_t pin_limit_;            // in blocks
  const std::uint32_t retention_limit_;      // in blocks, for each tenant
  const std::uint32_t all_retention_limit_;  // for all of them
  std::vector<Group> groups_;

  ClaimLevel pinned_;    // for one owner; own: by a pin of the block's hash
  ClaimLevel held_;      // for each group; own: a young block that is held, or was when a request took it
  ClaimLevel retained_;  // for each tenant; own: by a hint of a priority above the default
  PinTable pins_;
  Lifetimes lifetimes_;  // own blocks of retained_
  TimerWheel timers_;    // two for each block: its retention, and its youth (only with a minimum hold)
  IdleBlocks idle_;

  Instant now_;
  std::uint64_t latest_request_ = 0;
  std::uint32_t idle_pinned_ = 0;
  std::uint64_t refused_pins_ = 0;
  std::uint64_t refused_retentions_ = 0;
  // The number of blocks that were stored before a block: the lower, the older. Only with a minimum hold.
  BigVector<std::uint64_t> ages_;
  std::uint64_t stored_count_ = 0;
  // The HoldNeed of a block; reset when it may have changed.
  struct CountedNeed {
    std::uint32_t block = kNoBlock;
    std::uint32_t need = 0;
  };
  CountedNeed counted_need_;
  std::vector<TimerId> expired_timers_;
  std::vector<BlockHash> expired_pins_;
};

}  // namespace roost::worker

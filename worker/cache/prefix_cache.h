// The prefix cache: finds the blocks that hold a prefix. A tree of blocks; a path from a root is a prefix of tokens.
//
//   root (scope)      a block is ready once its KV is whole and it stands in the tree under its hash;
//    ├─ b7 ─ b2 ─ b9   it is referenced while a request's block table holds it, else idle and evictable.
//    │       └── b4   A block that a request still fills is referenced and not in the tree.
//    └─ b1
//
// A sequence that ends in the middle of a block leaves that block as a partial block: a leaf without a hash, which is
// not reported and never matched, but FindTail offers its rows. So tokens are shared, not only whole blocks.
//
// These hold at every time:
//  - prefix closure: a ready block's parent is ready. Blocks enter front to back and leave back to front, and the
//    events come in that order.
//  - the holder of a block holds all blocks before it, and releases them back to front (see EvictionPolicy).
//  - a match is verified: the found block's parent is the block matched before, its stored tokens are the prompt's, and
//    the first block's scope is the same. So equal hashes of unequal prefixes cost a miss, never a wrong token.
//  - no operation scans or sorts: each is O(1) per block for any size of the pool. Finding a tail, storing and evicting
//    are O(log siblings); for the rest of an eviction see EvictionPolicy.
//
// Only idle blocks without children are evicted. Claims says which of them are kept and which one goes next: this file
// is the plain path of blocks (match, take, commit, release, evict), and what an operator erases.
//
// A prompt, chain or tenant that an operator erases (ErasePrompt, EraseChain, EraseTenant) leaves the tree whatever
// keeps it: pins end, and a block that is in use is free when its last holder releases it. It is no eviction: the
// ghosts do not remember it.
//
// Not thread-safe. It owns no KV memory, and counts references in the BlockPool it was given, which outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/block_nodes.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/claims.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/observe/ghost_list.h"
#include "worker/cache/observe/residency.h"
#include "worker/cache/prefix_cache_types.h"
#include "worker/cache/structures/sibling_tree.h"
#include "worker/cache/tenant_blocks.h"
#include "worker/engine_api/event_log.h"

namespace roost::worker {

class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, const CacheOptions& options, std::unique_ptr<EvictionPolicy> eviction);

  // Sets the time, which never goes back. Ends expired retention and pins.
  void AdvanceTo(Instant now);

  // Says what blocks cost to compute again from now on; until then all cost the same.
  void SetRecomputeCost(RecomputeCost cost) { claims_.SetRecomputeCost(cost); }

  // ---- what a request does, in this order ----

  // Appends the longest ready prefix of `chain`, at most `limit` blocks, to `matched`. Changes no block's state.
  void Match(const BlockChain& chain, std::uint32_t limit, std::vector<BlockRef>& matched);

  // The ready block `index` of `chain` that follows the caller's own ready blocks[0 … index); nothing if there is none.
  // One step of Match.
  [[nodiscard]] std::optional<BlockRef> Find(const BlockChain& chain, std::uint32_t index,
                                             std::span<const BlockId> blocks);

  // Call it after a match of `blocks`, the chain's first blocks, all ready. Finds the block that shares the most
  // further tokens with the chain, at most `limit`; nothing if no block shares any. The caller may copy its KV rows
  // while it holds it, which is at most until it commits or acquires a block at that place.
  [[nodiscard]] std::optional<TailMatch> FindTail(const BlockChain& chain, std::span<const BlockId> blocks,
                                                  std::uint32_t limit) const;

  // Adds a holder to a matched block. Front to back. A stale ref is a bug.
  void Acquire(BlockRef ref);

  // Adds a holder to a block, ready or not, that a sibling of the caller holds.
  void Share(BlockId block) { pool_.AddReference(block); }

  // Removes a holder; back to front. A ready block without holders becomes idle, any other is freed. `use` describes
  // the request that releases the block, `retention` says how long the request wants its blocks kept.
  void Release(BlockId block, const RequestUse& use, const RequestRetention& retention = {});
  // Removes a holder from each of a request's blocks, back to front.
  void ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention = {});

  // Takes an empty block with one holder for `group`: a free block, or an evicted one. Empty when all blocks are
  // referenced, pinned or held.
  [[nodiscard]] std::optional<BlockId> Allocate(EvictionGroup group = EvictionGroup(0));

  // Frees the idle block that Allocate would give `group` if none were free. False when no block can be evicted.
  [[nodiscard]] bool EvictOne(EvictionGroup group = EvictionGroup(0));

  // Frees a held block, for a request that can not run otherwise: the oldest without a child, of the group whose turn
  // it is to give way to `group`. False when there is none; there is one while any block is held and EvictOne finds
  // none.
  [[nodiscard]] bool EvictHeld(EvictionGroup group = EvictionGroup(0));

  // Block `index` of `chain`, stored in blocks[index], is complete; blocks[0 … index) are ready and held by the caller.
  [[nodiscard]] CommitResult Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks,
                                    EvictionGroup group = EvictionGroup(0));

  // ---- blocks that were computed elsewhere ----

  // The ready block with this hash and root that follows `parent`, or begins a prompt. Its tokens are not compared: who
  // asks knows the hash alone.
  [[nodiscard]] std::optional<BlockRef> FindFollower(BlockHash hash, BlockHash root,
                                                     std::optional<BlockId> parent) const;
  // The ready blocks up to the one with this hash, front to back; none when it is not ready. O(blocks).
  [[nodiscard]] std::vector<BlockRef> PathTo(BlockHash hash) const;
  // As Acquire, for a holder that is no request: the block does not count as found.
  void Hold(BlockRef ref);
  // As Commit, of a block that was written with bytes from elsewhere: `own`, which the caller alone holds. The caller
  // holds its ready `parent` too, unless the block is the first of a prompt.
  [[nodiscard]] CommitResult CommitForeign(const ForeignBlock& block, std::optional<BlockId> parent, BlockId own,
                                           EvictionGroup group);

  // Rows of a block have been copied to `to`, which is not in the tree yet. It takes that block's source, and keeps it
  // when it is committed.
  void NoteCopied(BlockId from, BlockId to) { nodes_[to.value()].source = nodes_[from.value()].source; }
  [[nodiscard]] SourceId SourceOf(BlockId block) const { return nodes_[block.value()].source; }
  // As Discard, for all blocks that came from this source: they leave the tree with all behind them. Returns how many
  // left. O(blocks).
  std::uint32_t DiscardFrom(SourceId source);

  // ---- what a request does, again ----

  // Prefetches what a later Commit of a block with this hash reads.
  void PrefetchCommit(BlockHash hash, BlockId block) const;

  // blocks.back() holds the first `token_count` tokens (fewer than B) of the chain's block at that place, and only the
  // caller holds it; the blocks before it are ready. Makes it a partial block, unless the tree already has what it
  // holds.
  void StorePartial(const BlockChain& chain, std::span<const BlockId> blocks, std::uint32_t token_count,
                    EvictionGroup group);

  // Discards what the caller computed of `chain` from block `first` on, because it may be wrong. The ready blocks from
  // there on leave the tree with all their descendants, and so does a partial block after the chain's last ready block
  // that begins like the chain. They are free at once if they have no holders, otherwise when the last holder releases
  // them. A holder of such a block has no ready block there any more (see IsReady), and commits nothing after it. Pins
  // stay for the blocks that will be computed in their place. O(blocks that leave + hashes).
  void Discard(const BlockChain& chain, std::uint32_t first);
  [[nodiscard]] bool IsReady(BlockId block) const { return nodes_[block.value()].ready; }

  // ---- what is erased: call again, with the same values, until it is complete ----

  // Erases the prompt that is all of `chain`: its last full block with everything behind it, then its earlier blocks,
  // back to front, that have no child left. If the last full block is not ready, the prompt's ready blocks go in the
  // same way, after partial blocks behind them that hold nothing but the prompt. For a prompt without a full block,
  // all blocks that begin like it go. Pins of the blocks end, also of those that are not there. O(chain + erased
  // blocks).
  [[nodiscard]] EraseProgress ErasePrompt(const BlockChain& chain, EraseStep& step);

  // The hashes of the blocks up to the one with this hash, front to back; it alone when it is not ready. O(chain).
  [[nodiscard]] std::vector<BlockHash> ChainTo(BlockHash hash) const;
  // Erases the last block of such a chain with everything behind it, then the blocks before it, back to front, that
  // have no child left. Pins of the blocks end, also of those that are not there. `chain` is not empty. O(chain +
  // erased blocks).
  [[nodiscard]] EraseProgress EraseChain(std::span<const BlockHash> chain, EraseStep& step);

  // Erases all blocks that were committed for the tenant, with everything behind them. O(erased blocks).
  [[nodiscard]] EraseProgress EraseTenant(TenantId tenant, EraseStep& step);

  // The tenants that computed the blocks. Sequences are its users too.
  [[nodiscard]] TenantBlocks& tenants() { return tenants_; }

  // ---- what is kept ----

  // Ends the retention that a request asked for when it released `last` and all blocks before it. Blocks with a longer
  // retention keep it. Does nothing if `last` has been evicted since. O(blocks before it).
  void EndRetention(BlockRef last, const RequestRetention& retention);

  // A waiting request will hit this block: it is evicted after all others. Calls are counted; each needs one Unwant.
  void Want(BlockRef ref);
  // The block may have been evicted in the meantime.
  void Unwant(BlockRef ref);

  // Pins these blocks of one chain, front to back, until `end`: those that are ready now, the others once they are
  // ready. Blocks over the limit are refused and counted. Pinning a pinned block sets a new end.
  void Pin(std::span<const BlockHash> hashes, std::optional<Instant> end) { claims_.Pin(hashes, end); }
  // Ends the pins of these blocks, given front to back. A block stays pinned while a later block of its chain is
  // pinned, with or without a pin of its own, and counts towards the limit either way.
  void Unpin(std::span<const BlockHash> hashes) { claims_.Unpin(hashes); }
  // Ends all pins. O(pins).
  void UnpinAll() { claims_.UnpinAll(); }
  // Counts how many of these blocks are pinned, will be pinned, or are not; each counts once. O(hashes).
  [[nodiscard]] PinCounts PinsOf(std::span<const BlockHash> hashes) const { return claims_.PinsOf(hashes); }

  // ---- what it tells ----

  // Was a block with this hash evicted recently?
  [[nodiscard]] bool WasEvicted(BlockHash hash) const { return ghosts_.Contains(hash.low); }

  // Moves the events since the last call to the end of `events`, in order.
  void TakeEvents(std::vector<wire::CacheEvent>& events) { events_.TakeTo(events); }
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents();
  [[nodiscard]] ResidencyCounts TakeResidency() { return residency_.Take(); }

  // From now on changes are remembered, until they are taken.
  void NoteChanges() { notes_changes_ = true; }
  [[nodiscard]] const CacheChanges& changes() const { return changes_; }
  void ForgetChanges() {
    changes_.stored.clear();
    changes_.removed.clear();
  }
  // Describes a whole ready block.
  [[nodiscard]] ReadyBlock Describe(BlockId block) const;

  // All ready blocks as runs, parents before children. O(ready blocks).
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  // The prefixes that requests found most often, the most used first, at most `most`. A prefix ends at a block after
  // which more than one request continued differently from the others. The longest of equally used prefixes comes
  // first. O(blocks + found · log most); walking to the first blocks to read their tokens adds at most kMaxFrontSteps.
  static constexpr std::size_t kMaxFrontSteps = std::size_t{1} << 16U;
  [[nodiscard]] std::vector<wire::UsedPrefix> MostUsed(std::uint32_t most, wire::PrefixTokens tokens) const;

  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of the hashes of all ready blocks
  [[nodiscard]] std::uint32_t ready_count() const { return nodes_.by_hash.size(); }
  [[nodiscard]] std::uint32_t pinned_count() const { return claims_.pinned_count(); }
  // Blocks that retention keeps, and those for one tenant.
  [[nodiscard]] std::uint32_t retained_count() const { return claims_.retained_count(); }
  [[nodiscard]] std::uint32_t retained_count(TenantId tenant) const { return claims_.retained_count(tenant); }
  // The number of blocks that Allocate can return at once.
  [[nodiscard]] std::uint32_t available_count() const { return pool_.free_count() + claims_.evictable_count(); }
  // True if the ready block `ref` is among these, so taking it leaves one fewer.
  [[nodiscard]] bool IsAvailable(BlockRef ref) const { return claims_.IsEvictable(ref.block.value()); }
  // The number of blocks that EvictHeld can free, one after the other, when none is available.
  [[nodiscard]] std::uint32_t held_count() const { return claims_.held_count(); }
  [[nodiscard]] bool IsHeld(BlockRef ref) const { return claims_.IsHeld(ref.block.value()); }
  [[nodiscard]] bool IsPinned(BlockRef ref) const { return claims_.IsPinned(ref.block.value()); }
  [[nodiscard]] Duration min_hold() const { return claims_.min_hold(); }
  [[nodiscard]] std::uint32_t block_tokens() const { return nodes_.block_tokens; }
  [[nodiscard]] std::uint32_t group_count() const { return claims_.group_count(); }
  [[nodiscard]] std::uint32_t ready_count_of(EvictionGroup group) const { return claims_.ready_count_of(group); }
  [[nodiscard]] CacheCounters counters() const;
  [[nodiscard]] const BlockPool& pool() const { return pool_; }

  // Checks everything that this header says must hold. `expected_references[b]` is the number of block tables that hold
  // block b. O(blocks); for tests and for debugging a daemon. The error names the block and what is wrong.
  [[nodiscard]] Result<void> CheckInvariants(std::span<const std::uint32_t> expected_references) const;

 private:
  class TokenOrder;

  // ---- the tree ----

  [[nodiscard]] std::optional<std::uint32_t> FindVerified(const BlockChain& chain, std::uint32_t index,
                                                          std::uint32_t parent);
  [[nodiscard]] bool Holds(std::uint32_t block, const BlockChain& chain, std::uint32_t index,
                           std::uint32_t parent) const;
  [[nodiscard]] std::span<const TokenId> TokensOf(const BlockChain& chain, std::uint32_t index) const;
  [[nodiscard]] std::span<const TokenId> StoredTokens(std::uint32_t block) const;
  [[nodiscard]] std::uint32_t& ChildrenOf(std::uint32_t parent);
  [[nodiscard]] std::uint32_t ChildrenOf(std::uint32_t parent) const;
  [[nodiscard]] std::optional<std::uint32_t> FindPartialOf(const BlockChain& chain, std::uint32_t count,
                                                           std::uint32_t parent) const;
  [[nodiscard]] std::optional<std::uint32_t> FirstLike(std::uint32_t parent, BlockHash root,
                                                       std::span<const TokenId> tokens) const;
  [[nodiscard]] CommitResult Merge(std::uint32_t equal, BlockId own);
  [[nodiscard]] CommitResult Collide(BlockId own);
  void Store(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& as);
  void Link(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& node);
  void DropPrefixOf(std::uint32_t block);
  void Remove(std::uint32_t block);
  [[nodiscard]] bool IsTop(const BlockNode& node) const;
  void ReportStored(const BlockNode& node);

  // ---- blocks that leave ----

  void Evict(std::uint32_t victim);
  void DiscardTree(std::uint32_t first);
  void DiscardLeaf(std::uint32_t block);
  [[nodiscard]] EraseProgress EraseTree(std::uint32_t first, EraseStep& step);
  void EraseLeaf(std::uint32_t block, EraseStep& step);
  [[nodiscard]] EraseProgress EraseBehind(const BlockChain& chain, std::uint32_t count, std::uint32_t parent,
                                          EraseStep& step);
  [[nodiscard]] EraseProgress EraseChildless(std::uint32_t last, EraseStep& step);
  void ForgetMissing(std::span<const BlockHash> hashes);

  // ---- memory that is read soon ----

  void PrefetchByHash(std::span<const BlockHash> hashes) const;
  void PrefetchBlock(BlockId block) const;
  void PrefetchEvictionsAfter(std::uint32_t block) const;

  // ---- views ----

  // The used blocks where a prefix ends for MostUsed: every child was found less often, by more than one request, or
  // there is none.
  [[nodiscard]] std::vector<std::uint32_t> EndsOfUse() const;
  // The first block on the path to `block`; nothing if the path is longer than `steps_left`, which is counted down.
  [[nodiscard]] std::optional<std::uint32_t> FrontOf(std::uint32_t block, std::size_t& steps_left) const;
  [[nodiscard]] Result<void> CheckNode(std::uint32_t block) const;
  [[nodiscard]] Result<void> CheckChildren(std::uint32_t block) const;
  [[nodiscard]] Result<void> CheckTree() const;
  [[nodiscard]] Result<void> CheckTenants() const;

  BlockPool& pool_;
  BlockNodes nodes_;
  SiblingTree siblings_;
  TenantBlocks tenants_;
  BigVector<TokenId> tokens_;              // B per block
  std::uint32_t first_blocks_ = kNoBlock;  // root of the tree of the first blocks of all scopes
  BlockHash digest_;
  Claims claims_;

  Instant now_;
  GhostList ghosts_;
  Residency residency_;
  CacheCounters counters_;  // without those of the claims
  EventLog events_;
  bool notes_changes_ = false;
  CacheChanges changes_;
};

}  // namespace roost::worker

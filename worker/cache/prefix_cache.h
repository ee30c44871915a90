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
// Only idle blocks without children are evicted. Claims says which of them are kept and which one goes next. This file
// is the plain path of blocks: match, take, commit, release, evict. Beside it stand what must leave (CacheEraser), what
// is told of the whole tree (cache_views.h), and what other workers ask (cache_travel.h).
//
// Not thread-safe. It owns no KV memory, and counts references in the BlockPool it was given, which outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/block_tree.h"
#include "worker/cache/claims.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/observe/ghost_list.h"
#include "worker/cache/observe/residency.h"
#include "worker/cache/prefix_cache_types.h"
#include "worker/cache/tenant_blocks.h"
#include "worker/engine_api/event_log.h"

namespace roost::worker {

class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, const CacheOptions& options, std::unique_ptr<EvictionPolicy> eviction);

  // Sets the time, which never goes back. Ends expired retention and pins.
  void AdvanceTo(Instant now);

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

  // As Acquire, for a holder that is no request: the block does not count as found.
  void Hold(BlockRef ref);

  // Adds a holder to a block, ready or not, that a sibling of the caller holds.
  void Share(BlockId block) { pool_.AddReference(block); }

  // Removes a holder; back to front. A ready block without holders becomes idle, any other is freed. `use` describes
  // the request that releases the block, `retention` says how long the request wants its blocks kept.
  void Release(BlockId block, const RequestUse& use, const RequestRetention& retention = {});
  // Removes a holder from each of a request's blocks, back to front.
  void ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention = {},
                  std::span<const FrontLifetime> lifetimes = {});

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
  // The block `own`, which the caller alone holds, is complete: computed here, or written with bytes from elsewhere.
  // The caller holds its ready `parent` too, unless the block is the first of a prompt.
  [[nodiscard]] CommitResult Commit(const NewBlock& block, std::optional<BlockId> parent, BlockId own,
                                    EvictionGroup group);

  // Rows of a block have been copied to `to`, which is not in the tree yet. It takes that block's source, and keeps it
  // when it is committed.
  void NoteCopied(BlockId from, BlockId to) { tree_[to.value()].source = tree_[from.value()].source; }

  // Prefetches what a later Commit of a block with this hash reads.
  void PrefetchCommit(BlockHash hash, BlockId block) const;

  // blocks.back() holds the first `token_count` tokens (fewer than B) of the chain's block at that place, and only the
  // caller holds it; the blocks before it are ready. Makes it a partial block, unless the tree already has what it
  // holds.
  void StorePartial(const BlockChain& chain, std::span<const BlockId> blocks, std::uint32_t token_count,
                    EvictionGroup group);

  [[nodiscard]] bool IsReady(BlockId block) const { return tree_[block.value()].ready; }

  // The tenants that computed the blocks. Sequences are its users too.
  [[nodiscard]] TenantBlocks& tenants() { return tenants_; }
  [[nodiscard]] const TenantBlocks& tenants() const { return tenants_; }

  // ---- what is kept ----

  // Ends the retention that a request asked for when it released `last` and all blocks before it. Blocks with a longer
  // retention keep it. Does nothing if `last` has been evicted since. O(blocks before it).
  void EndRetention(BlockRef last, const RequestRetention& retention);

  // A waiting request will hit this block: it is evicted after all others. Calls are counted; each needs one Unwant.
  void Want(BlockRef ref);
  // The block may have been evicted in the meantime.
  void Unwant(BlockRef ref);

  // Why blocks are kept: pins begin and end there, and it counts what is kept.
  [[nodiscard]] Claims& claims() { return claims_; }
  [[nodiscard]] const Claims& claims() const { return claims_; }

  // ---- what it tells ----

  // Was a block with this hash evicted recently?
  [[nodiscard]] bool WasEvicted(BlockHash hash) const { return ghosts_.Contains(hash.low); }

  // Moves the events since the last call to the end of `events`, in order.
  void TakeEvents(std::vector<wire::CacheEvent>& events) { events_.TakeTo(events); }
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents();
  [[nodiscard]] ResidencyCounts TakeResidency() { return residency_.Take(); }
  // Time since the block, which is ready, became so.
  [[nodiscard]] Duration AgeOf(BlockId block) const { return residency_.AgeOf(block, now_); }

  // From now on adds its changes to `changes`, which outlives it.
  void NoteChanges(CacheChanges& changes) { changes_ = &changes; }

  [[nodiscard]] const BlockTree& tree() const { return tree_; }
  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of the hashes of all ready blocks
  [[nodiscard]] std::uint32_t ready_count() const { return tree_.by_hash().size(); }
  // The number of blocks that Allocate can return at once.
  [[nodiscard]] std::uint32_t available_count() const { return pool_.free_count() + claims_.evictable_count(); }
  // True if the ready block `ref` is among these, so taking it leaves one fewer.
  [[nodiscard]] bool IsAvailable(BlockRef ref) const { return claims_.IsEvictable(ref.block.value()); }
  [[nodiscard]] std::uint32_t block_tokens() const { return tree_.block_tokens(); }
  [[nodiscard]] CacheCounters counters() const;
  [[nodiscard]] const BlockPool& pool() const { return pool_; }

  // Checks everything that this header says must hold. `expected_references[b]` is the number of block tables that hold
  // block b. O(blocks); for tests and for debugging a daemon. The error names the block and what is wrong.
  [[nodiscard]] Result<void> CheckInvariants(std::span<const std::uint32_t> expected_references) const;

 private:
  friend class CacheEraser;

  // ---- the tree ----

  [[nodiscard]] std::optional<std::uint32_t> FindVerified(const BlockChain& chain, std::uint32_t index,
                                                          std::uint32_t parent);
  [[nodiscard]] std::span<const TokenId> TokensOf(const BlockChain& chain, std::uint32_t index) const;
  [[nodiscard]] CommitResult CommitAs(const BlockNode& node, std::span<const TokenId> tokens, BlockId own);
  [[nodiscard]] CommitResult Merge(std::uint32_t equal, BlockId own);
  void Store(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& as);
  void Link(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& node);
  void DropIfPrefix(std::uint32_t before, std::uint32_t block);
  void Evict(std::uint32_t victim);
  void Remove(std::uint32_t block);
  void ReportStored(const BlockNode& node);

  // ---- memory that is read soon ----

  void PrefetchByHash(std::span<const BlockHash> hashes) const;
  void PrefetchBlock(BlockId block) const;
  void PrefetchEvictionsAfter(std::uint32_t block) const;

  // ---- invariants (cache_views.cc) ----

  [[nodiscard]] Result<void> CheckReferences(std::span<const std::uint32_t> expected) const;
  [[nodiscard]] Result<void> CheckTenants() const;

  BlockPool& pool_;
  BlockTree tree_;
  TenantBlocks tenants_;
  BlockHash digest_;
  Claims claims_;

  Instant now_;
  GhostList ghosts_;
  Residency residency_;
  CacheCounters counters_;  // without those of the claims
  EventLog events_;
  CacheChanges* changes_ = nullptr;  // null: none are noted
};

}  // namespace roost::worker

// The prefix cache: which blocks hold which prefix. A tree of blocks; a path from a root is a prefix of tokens.
//
//   root (scope)      a block is ready once its KV is whole and it stands in the tree under its hash;
//    ├─ b7 ─ b2 ─ b9   it is referenced while a request's block table holds it, else idle and evictable.
//    │       └── b4   A block that a request still fills is referenced and not in the tree.
//    └─ b1
//
// What holds at every instant:
//   - prefix closure: a ready block's parent is ready. Blocks enter front to back and leave back to front, and the
//     events say so in that order.
//   - whoever holds a block holds all blocks before it, and releases back to front (see EvictionPolicy).
//   - a match is proven, not believed: the parent found is the parent matched, the stored tokens are the prompt's, and
//     at the front the scope is the same. So equal hashes of unequal prefixes cost a miss, never a wrong token.
//   - no operation scans or sorts: each is O(1) per block, whatever the size of the pool.
//
// Not thread-safe. It owns no KV memory, and counts references in the BlockPool it was given, which outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/eviction.h"
#include "worker/cache/hash_index.h"

namespace roost::worker {

// A sequence as the cache sees it: block i has hash hashes[i] and tokens[i·B .. (i+1)·B). A view, for one call.
struct BlockChain {
  BlockHash root;
  std::span<const BlockHash> hashes;
  std::span<const TokenId> tokens;
};

// What became of a block that was committed. `block` takes its place in the caller's table.
struct CommitResult {
  enum class Kind {
    kStored,    // ready under its hash
    kMerged,    // an equal block was ready already: `block` is that one, the caller's own is free
    kCollided,  // the hash is taken by other tokens: the caller's block stays its own, nothing after it can be stored
  };
  Kind kind;
  BlockId block;
};

// Totals since construction.
struct CacheCounters {
  std::uint64_t evicted_blocks = 0;
  std::uint64_t verification_misses = 0;  // a hash was found, and the block behind it was not the prompt's
};

class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, std::uint32_t block_tokens, std::unique_ptr<EvictionPolicy> eviction);

  // Appends the longest ready prefix of `chain`, at most `limit` blocks, to `matched`. Changes no block's state.
  void Match(const BlockChain& chain, std::uint32_t limit, std::vector<BlockRef>& matched);

  // The ready block `index` of `chain` behind the caller's own blocks[0 … index), which are ready; nothing if there is
  // none. The one step of Match.
  [[nodiscard]] std::optional<BlockRef> Find(const BlockChain& chain, std::uint32_t index,
                                             std::span<const BlockId> blocks);

  // One more holder of a matched block. Front to back. A ref that has gone stale is a bug.
  void Acquire(BlockRef ref);

  // One holder less; back to front. A ready block without holders is idle, another one is free. `use` says what the
  // request was that lets go.
  void Release(BlockId block, const RequestUse& use);

  // An empty block with one holder: a free one, or the victim of an eviction. Nothing when all are referenced.
  [[nodiscard]] std::optional<BlockId> Allocate();

  // Block `index` of `chain`, lying in blocks[index], is whole; blocks[0 … index) are ready and the caller's.
  [[nodiscard]] CommitResult Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks);

  // The events since the last call, in order.
  [[nodiscard]] std::vector<wire::CacheEvent> TakeEvents();

  // All ready blocks as runs, parents before children. O(ready blocks).
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor of the hashes of all ready blocks
  [[nodiscard]] std::uint32_t ready_count() const { return index_.size(); }
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }
  [[nodiscard]] const CacheCounters& counters() const { return counters_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }

  // Everything that this header says must hold. `expected_references[b]` is the number of block tables that hold block
  // b. O(blocks); for tests and for debugging a daemon. The error says which block breaks what.
  [[nodiscard]] Result<void> CheckInvariants(std::span<const std::uint32_t> expected_references) const;

 private:
  static constexpr std::uint32_t kNoBlock = 0xFFFFFFFFU;

  // Node b describes block b. Children of one parent form a doubly linked list; so do the first blocks of all scopes.
  struct Node {
    BlockHash hash;
    BlockHash root;
    std::uint32_t parent = kNoBlock;
    std::uint32_t first_child = kNoBlock;
    std::uint32_t previous_sibling = kNoBlock;
    std::uint32_t next_sibling = kNoBlock;
    std::uint32_t position = 0;   // in blocks from the root
    std::uint32_t hit_count = 0;  // requests that found it here
    bool ready = false;
  };

  [[nodiscard]] std::optional<std::uint32_t> FindVerified(const BlockChain& chain, std::uint32_t index,
                                                          std::uint32_t parent);
  [[nodiscard]] bool Holds(std::uint32_t block, const BlockChain& chain, std::uint32_t index,
                           std::uint32_t parent) const;
  [[nodiscard]] std::span<const TokenId> TokensOf(const BlockChain& chain, std::uint32_t index) const;
  [[nodiscard]] std::span<TokenId> StoredTokens(std::uint32_t block);
  [[nodiscard]] std::span<const TokenId> StoredTokens(std::uint32_t block) const;
  [[nodiscard]] std::uint32_t& FirstChildOf(std::uint32_t parent);

  void Store(const BlockChain& chain, std::uint32_t index, std::uint32_t block, std::uint32_t parent);
  void Remove(std::uint32_t block);
  [[nodiscard]] bool EvictOne();
  [[nodiscard]] BlockUse UseOf(std::uint32_t block, const RequestUse& use) const;
  [[nodiscard]] TreePlace PlaceOf(std::uint32_t block) const;
  void ReportStored(const Node& node);
  void ReportRemoved(const Node& node);

  [[nodiscard]] Result<void> CheckNode(std::uint32_t block) const;
  [[nodiscard]] Result<void> CheckChildren(std::uint32_t block) const;

  BlockPool& pool_;
  const std::uint32_t block_tokens_;
  std::unique_ptr<EvictionPolicy> eviction_;
  HashIndex index_;  // the ready blocks
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // B per block
  std::uint32_t first_of_roots_ = kNoBlock;
  BlockHash digest_;
  CacheCounters counters_;
  std::vector<wire::CacheEvent> events_;
};

}  // namespace roost::worker

// The blocks of the prefix cache, by number, by hash and by what they follow. Node b describes block b: its place in
// the tree, its last use, and its place in the order of evictions. A node is one cache line, so that a request reads
// little of each block. The tokens of a block are beside its node: a hash finds a block, and its tokens prove it.
//
//   first blocks ─ b7 ─ b2 ─ b9     siblings are ordered by scope, then by tokens (a shorter block before those that it
//    │             └── b4           is a prefix of), then by block number
//    └ b1
//
// Not thread-safe. Every operation is O(1), with siblings O(log siblings), unless it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/claim_level.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/idle_blocks.h"
#include "worker/cache/prefix_cache_types.h"
#include "worker/cache/structures/hash_index.h"
#include "worker/cache/structures/sibling_tree.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

struct BlockNode {
  BlockHash hash;
  BlockHash root;
  std::uint32_t parent = kNoBlock;
  std::uint32_t children = kNoBlock;  // root of the tree of children
  std::uint32_t position = 0;         // in blocks from the root
  std::uint32_t hit_count = 0;        // requests that found it here
  TenantId tenant;
  SourceId source;                // also of a block that is not in the tree yet
  std::uint16_t token_count = 0;  // B, or fewer for a partial block
  std::uint16_t wanted_count = 0;
  std::uint8_t group = 0;
  std::uint8_t retention_priority = kDefaultRetentionPriority;  // the default without a retention
  std::uint8_t rank = kDefaultRetentionPriority;                // while it is idle, its place in the order of evictions
  BlockOrigin origin : 1 = BlockOrigin::kPrompt;                // set at its last release
  bool ready : 1 = false;

  [[nodiscard]] bool IsLeaf() const { return children == kNoBlock; }
  // Does the block, of `block_tokens` tokens or fewer, belong to the prompt of a request that uses it, or to its
  // answer?
  [[nodiscard]] BlockOrigin OriginFor(const RequestUse& use, std::uint32_t block_tokens) const {
    const std::uint64_t end = std::uint64_t{position} * block_tokens + token_count;
    return end <= use.prompt_token_count ? BlockOrigin::kPrompt : BlockOrigin::kDecode;
  }
};
static_assert(sizeof(BlockNode) == 64);  // one cache line

class BlockTree {
 public:
  BlockTree(std::uint32_t block_count, std::uint32_t tokens_per_block);

  [[nodiscard]] BlockNode& operator[](std::uint32_t block) { return nodes_[block]; }
  [[nodiscard]] const BlockNode& operator[](std::uint32_t block) const { return nodes_[block]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }

  // The ready block with this hash; no partial one has a hash.
  [[nodiscard]] std::optional<std::uint32_t> FindByHash(BlockHash hash) const {
    const auto found = by_hash_.Find(hash, [&](BlockId block) { return nodes_[block.value()].hash == hash; });
    return found ? std::optional(found->value()) : std::nullopt;
  }
  // The ready blocks, without the partial ones.
  [[nodiscard]] HashIndex& by_hash() { return by_hash_; }
  [[nodiscard]] const HashIndex& by_hash() const { return by_hash_; }

  [[nodiscard]] bool IsPartial(std::uint32_t block) const { return nodes_[block].token_count < block_tokens_; }
  // The tokens of the block: B, or fewer of a partial one.
  [[nodiscard]] std::span<const TokenId> TokensOf(std::uint32_t block) const {
    return std::span(tokens_).subspan(std::size_t{block} * block_tokens_, nodes_[block].token_count);
  }
  // True only if the whole prefix and its scope are equal, by induction over the parents.
  [[nodiscard]] bool Holds(std::uint32_t block, std::uint32_t parent, BlockHash root,
                           std::span<const TokenId> tokens) const;

  // The children of `parent` right before and right after the place of `tokens` (a whole block or its front) in scope
  // `root`: before all blocks that begin with them.
  [[nodiscard]] SiblingTree::Pair Neighbours(std::uint32_t parent, BlockHash root,
                                             std::span<const TokenId> tokens) const;
  // Appends the children of `parent`, in order; of kNoBlock the first blocks of all scopes. O(children).
  void AppendChildren(std::uint32_t parent, std::vector<std::uint32_t>& blocks) const;

  // A leaf comes in two steps: Write says what it is and holds, and returns the sibling that will come right before it;
  // Link puts it among the children of its parent.
  std::uint32_t Write(std::uint32_t block, std::span<const TokenId> tokens, const BlockNode& node);
  void Link(std::uint32_t block);
  // Takes a leaf from among its siblings. Its node stays until the caller clears it.
  void Unlink(std::uint32_t block);
  // Overwrites all tokens of a block.
  void Wipe(std::uint32_t block);

  // Prefetches the block's node and its first tokens.
  void Prefetch(BlockId block) const;

 private:
  class TokenOrder;

  [[nodiscard]] std::uint32_t& ChildrenOf(std::uint32_t parent);
  [[nodiscard]] std::uint32_t ChildrenOf(std::uint32_t parent) const;

  const std::uint32_t block_tokens_;
  BigVector<BlockNode> nodes_;
  HashIndex by_hash_;
  SiblingTree siblings_;
  BigVector<TokenId> tokens_;              // B per block
  std::uint32_t first_blocks_ = kNoBlock;  // root of the tree of the first blocks of all scopes
};

// True for the first block of a path that is of its tenant: see TenantBlocks.
[[nodiscard]] inline bool IsTop(const BlockTree& tree, const BlockNode& node) {
  return node.parent == kNoBlock || tree[node.parent].tenant != node.tenant;
}

}  // namespace roost::worker

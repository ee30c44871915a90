#include "worker/cache/block_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {
namespace {

template <typename... Args>
Error BrokenTree(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(format, std::forward<Args>(args)...), "block_tree"};
}

}  // namespace

class BlockTree::TokenOrder final : public SiblingTree::Order {
 public:
  // The place of `tokens`, before all blocks that begin with them.
  TokenOrder(const BlockTree& tree, BlockHash root, std::span<const TokenId> tokens)
      : tree_(tree), root_(root), tokens_(tokens) {}
  // The place of a block.
  TokenOrder(const BlockTree& tree, std::uint32_t block)
      : tree_(tree), root_(tree[block].root), tokens_(tree.TokensOf(block)), block_(block) {}

  [[nodiscard]] bool IsBefore(std::uint32_t other) const override {
    const BlockHash other_root = tree_[other].root;
    if (root_ != other_root) return root_ < other_root;
    const auto stored = tree_.TokensOf(other);
    const auto [mine, theirs] = std::mismatch(tokens_.begin(), tokens_.end(), stored.begin(), stored.end());
    if (theirs == stored.end()) return mine == tokens_.end() && (!block_ || *block_ < other);
    return mine == tokens_.end() || *mine < *theirs;
  }

 private:
  const BlockTree& tree_;
  const BlockHash root_;
  const std::span<const TokenId> tokens_;
  const std::optional<std::uint32_t> block_ = std::nullopt;
};

BlockTree::BlockTree(std::uint32_t block_count, std::uint32_t tokens_per_block)
    : block_tokens_(tokens_per_block),
      nodes_(block_count),
      by_hash_(block_count),
      siblings_(block_count),
      tokens_(std::size_t{block_count} * tokens_per_block) {
  ROOST_CHECK(IsValidBlockTokens(block_tokens_), "block_tokens {}", block_tokens_);
}

bool BlockTree::Holds(std::uint32_t block, std::uint32_t parent, BlockHash root,
                      std::span<const TokenId> tokens) const {
  const BlockNode& node = nodes_[block];
  const auto stored = TokensOf(block);
  return node.parent == parent && node.root == root && std::equal(stored.begin(), stored.end(), tokens.begin());
}

SiblingTree::Pair BlockTree::Neighbours(std::uint32_t parent, BlockHash root, std::span<const TokenId> tokens) const {
  return siblings_.Neighbours(ChildrenOf(parent), TokenOrder(*this, root, tokens));
}

std::optional<std::uint32_t> BlockTree::FirstLike(std::uint32_t parent, BlockHash root,
                                                  std::span<const TokenId> tokens) const {
  const std::uint32_t child = Neighbours(parent, root, tokens).after;
  if (child == kNoBlock || nodes_[child].root != root) return std::nullopt;
  const std::span<const TokenId> stored = TokensOf(child);
  const bool begins_so = stored.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), stored.begin());
  return begins_so ? std::optional(child) : std::nullopt;
}

void BlockTree::AppendChildren(std::uint32_t parent, std::vector<std::uint32_t>& blocks) const {
  siblings_.Append(ChildrenOf(parent), blocks);
}

void BlockTree::Write(std::uint32_t block, std::span<const TokenId> tokens, const BlockNode& node) {
  nodes_[block] = node;
  nodes_[block].ready = true;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + std::ptrdiff_t{block} * block_tokens_);
}

std::uint32_t BlockTree::Before(std::uint32_t block) const {
  return siblings_.Neighbours(ChildrenOf(nodes_[block].parent), TokenOrder(*this, block)).before;
}

void BlockTree::Link(std::uint32_t block) {
  siblings_.Insert(ChildrenOf(nodes_[block].parent), block, TokenOrder(*this, block));
}

void BlockTree::Unlink(std::uint32_t block) {
  ROOST_CHECK(nodes_[block].ready && IsLeaf(block), "block {} is not a leaf to remove", block);
  siblings_.Erase(ChildrenOf(nodes_[block].parent), block, TokenOrder(*this, block));
}

void BlockTree::Wipe(std::uint32_t block) {
  const auto tokens = std::span(tokens_).subspan(std::size_t{block} * block_tokens_, block_tokens_);
  std::fill(tokens.begin(), tokens.end(), TokenId{0});
}

void BlockTree::Prefetch(BlockId block) const {
  roost::Prefetch(&nodes_[block.value()]);
  roost::Prefetch(&tokens_[std::size_t{block.value()} * block_tokens_]);
}

std::uint32_t& BlockTree::ChildrenOf(std::uint32_t parent) {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

std::uint32_t BlockTree::ChildrenOf(std::uint32_t parent) const {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

// Walks the tree from the front: every ready block must be found exactly once. The walk stops after as many blocks as
// there are, so a cycle can not make it endless.
Result<void> BlockTree::Check() const {
  std::uint32_t ready_count = 0;
  for (std::uint32_t block = 0; block < size(); ++block) {
    if (!nodes_[block].ready) continue;
    ready_count += IsPartial(block) ? 0 : 1;
    ROOST_RETURN_IF_ERROR(CheckNode(block));
  }
  std::vector<std::uint32_t> blocks;
  AppendChildren(kNoBlock, blocks);
  for (const std::uint32_t block : blocks) {
    if (!nodes_[block].ready || nodes_[block].parent != kNoBlock)
      return BrokenTree("block {} is no first block", block);
  }
  std::uint32_t full = 0;
  for (std::size_t seen = 0; !blocks.empty() && seen <= nodes_.size(); ++seen) {
    const std::uint32_t block = blocks.back();
    blocks.pop_back();
    full += IsPartial(block) ? 0 : 1;
    AppendChildren(block, blocks);
  }
  if (!blocks.empty() || full != ready_count || full != by_hash_.size())
    return BrokenTree("{} ready blocks, {} in the tree, {} in the index", ready_count, full, by_hash_.size());
  return {};
}

Result<void> BlockTree::CheckNode(std::uint32_t block) const {
  const BlockNode& node = nodes_[block];
  if (IsPartial(block)) {
    if (node.children != kNoBlock) return BrokenTree("partial block {} has children", block);
  } else if (FindByHash(node.hash) != block) {
    return BrokenTree("block {} is not in the index under its hash", block);
  }
  if (node.parent == kNoBlock) {
    if (node.position != 0) return BrokenTree("block {} at position {} has no parent", block, node.position);
  } else {
    const BlockNode& parent = nodes_[node.parent];
    if (!parent.ready) return BrokenTree("block {} is ready, its parent {} is not", block, node.parent);
    if (parent.position + 1 != node.position) {
      return BrokenTree("block {} does not continue its parent {}", block, node.parent);
    }
  }
  std::vector<std::uint32_t> children;
  AppendChildren(block, children);
  for (const std::uint32_t child : children) {
    if (!nodes_[child].ready || nodes_[child].parent != block)
      return BrokenTree("child {} of block {} is linked wrongly", child, block);
  }
  return {};
}

}  // namespace roost::worker

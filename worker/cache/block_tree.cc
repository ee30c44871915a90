#include "worker/cache/block_tree.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {

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

void BlockTree::AppendChildren(std::uint32_t parent, std::vector<std::uint32_t>& blocks) const {
  siblings_.Append(ChildrenOf(parent), blocks);
}

std::uint32_t BlockTree::Write(std::uint32_t block, std::span<const TokenId> tokens, const BlockNode& node) {
  nodes_[block] = node;
  nodes_[block].ready = true;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + std::ptrdiff_t{block} * block_tokens_);
  const std::uint32_t siblings = ChildrenOf(node.parent);
  if (siblings == kNoBlock) return kNoBlock;  // that of most blocks: a prompt seldom branches
  return siblings_.Neighbours(siblings, TokenOrder(*this, block)).before;
}

void BlockTree::Link(std::uint32_t block) {
  siblings_.Insert(ChildrenOf(nodes_[block].parent), block, TokenOrder(*this, block));
}

void BlockTree::Unlink(std::uint32_t block) {
  ROOST_CHECK(nodes_[block].ready && nodes_[block].IsLeaf(), "block {} is not a leaf to remove", block);
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

}  // namespace roost::worker

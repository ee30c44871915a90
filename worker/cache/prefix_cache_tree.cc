// The part of the prefix cache that keeps the tree: finds a block among its siblings, links and removes blocks.
#include <algorithm>

#include "common/base/check.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

std::optional<std::uint32_t> PrefixCache::FindVerified(const BlockChain& chain, std::uint32_t index,
                                                       std::uint32_t parent) {
  const std::uint32_t child = ChildrenOf(parent);
  const bool is_it = parent != kNoBlock && child != kNoBlock && nodes_[child].hash == chain.hashes[index];
  const std::optional<BlockId> holder = is_it ? BlockId(child) : FindByHash(chain.hashes[index]);
  if (!holder) return std::nullopt;
  if (!Holds(holder->value(), chain, index, parent)) {
    ++counters_.verification_misses;
    return std::nullopt;
  }
  return holder->value();
}

// True only if the whole prefix and its scope are equal, by induction over the parents.
bool PrefixCache::Holds(std::uint32_t block, const BlockChain& chain, std::uint32_t index, std::uint32_t parent) const {
  const Node& node = nodes_[block];
  const auto stored = StoredTokens(block);
  const auto wanted = TokensOf(chain, index);
  return node.parent == parent && node.root == chain.RootAt(index) &&
         std::equal(stored.begin(), stored.end(), wanted.begin());
}

std::span<const TokenId> PrefixCache::TokensOf(const BlockChain& chain, std::uint32_t index) const {
  ROOST_CHECK((std::size_t{index} + 1) * block_tokens_ <= chain.tokens.size(), "block {} has no tokens", index);
  return chain.tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_);
}

std::span<const TokenId> PrefixCache::StoredTokens(std::uint32_t block) const {
  return std::span(tokens_).subspan(std::size_t{block} * block_tokens_, nodes_[block].token_count);
}

std::uint32_t& PrefixCache::ChildrenOf(std::uint32_t parent) {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

std::uint32_t PrefixCache::ChildrenOf(std::uint32_t parent) const {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

// Siblings are ordered by scope, then by tokens (a shorter block before those that it is a prefix of), then by block
// number.
class PrefixCache::TokenOrder final : public SiblingTree::Order {
 public:
  // The place of `tokens` (a whole block or its front) in scope `root`: before all blocks that begin with them.
  TokenOrder(const PrefixCache& cache, BlockHash root, std::span<const TokenId> tokens)
      : cache_(cache), root_(root), tokens_(tokens) {}
  // The place of a block.
  TokenOrder(const PrefixCache& cache, std::uint32_t block)
      : cache_(cache), root_(cache.nodes_[block].root), tokens_(cache.StoredTokens(block)), block_(block) {}

  [[nodiscard]] bool IsBefore(std::uint32_t other) const override {
    const BlockHash other_root = cache_.nodes_[other].root;
    if (root_ != other_root) return root_ < other_root;
    const auto stored = cache_.StoredTokens(other);
    const auto [mine, theirs] = std::mismatch(tokens_.begin(), tokens_.end(), stored.begin(), stored.end());
    if (theirs == stored.end()) return mine == tokens_.end() && (!block_ || *block_ < other);
    return mine == tokens_.end() || *mine < *theirs;
  }

 private:
  const PrefixCache& cache_;
  const BlockHash root_;
  const std::span<const TokenId> tokens_;
  const std::optional<std::uint32_t> block_ = std::nullopt;
};

std::optional<TailMatch> PrefixCache::FindTail(const BlockChain& chain, std::span<const BlockId> blocks,
                                               std::uint32_t limit) const {
  const std::size_t begin = blocks.size() * block_tokens_;
  if (begin >= chain.tokens.size()) return std::nullopt;
  const auto rest = chain.tokens.subspan(begin, std::min<std::size_t>(chain.tokens.size() - begin, block_tokens_));
  const std::uint32_t parent = blocks.empty() ? kNoBlock : blocks.back().value();
  const BlockHash root = chain.RootAt(static_cast<std::uint32_t>(blocks.size()));
  const auto [before, after] = siblings_.Neighbours(ChildrenOf(parent), TokenOrder(*this, root, rest));
  TailMatch best;
  for (const std::uint32_t block : {before, after}) {
    if (block == kNoBlock || nodes_[block].root != root) continue;
    const auto stored = StoredTokens(block);
    const auto common = std::mismatch(rest.begin(), rest.end(), stored.begin(), stored.end()).first - rest.begin();
    const std::uint32_t count = std::min(limit, static_cast<std::uint32_t>(common));
    if (count > best.token_count) best = {pool_.RefTo(BlockId(block)), count};
  }
  if (best.token_count == 0) return std::nullopt;
  return best;
}

// A partial block that is a child of `parent` and holds only tokens that the chain has after its first `count` blocks.
std::optional<std::uint32_t> PrefixCache::FindPartialOf(const BlockChain& chain, std::uint32_t count,
                                                        std::uint32_t parent) const {
  const auto rest = chain.tokens.subspan(std::min(chain.tokens.size(), std::size_t{count} * block_tokens_));
  const auto begin = rest.first(std::min<std::size_t>(rest.size(), block_tokens_));
  const auto [before, after] = siblings_.Neighbours(ChildrenOf(parent), TokenOrder(*this, chain.RootAt(count), begin));
  for (const std::uint32_t block : {before, after}) {
    if (block == kNoBlock || !IsPartial(block) || nodes_[block].root != chain.RootAt(count)) continue;
    const auto stored = StoredTokens(block);
    if (stored.size() <= begin.size() && std::equal(stored.begin(), stored.end(), begin.begin())) return block;
  }
  return std::nullopt;
}

// The first child of `parent` in scope `root` that begins with `tokens`.
std::optional<std::uint32_t> PrefixCache::FirstLike(std::uint32_t parent, BlockHash root,
                                                    std::span<const TokenId> tokens) const {
  const std::uint32_t child = siblings_.Neighbours(ChildrenOf(parent), TokenOrder(*this, root, tokens)).after;
  if (child == kNoBlock || nodes_[child].root != root) return std::nullopt;
  const std::span<const TokenId> stored = StoredTokens(child);
  const bool begins_so = stored.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), stored.begin());
  return begins_so ? std::optional(child) : std::nullopt;
}

void PrefixCache::Store(const BlockChain& chain, std::uint32_t index, std::uint32_t block, std::uint32_t parent,
                        EvictionGroup group) {
  ROOST_CHECK((std::size_t{index} + 1) * block_tokens_ <= chain.tokens.size(), "block {} has no tokens", index);
  Link(chain, block,
       Node{.hash = chain.hashes[index],
            .root = chain.RootAt(index),
            .parent = parent,
            .position = index,
            .token_count = static_cast<std::uint16_t>(block_tokens_),
            .tenant = chain.TenantAt(index),
            .group = static_cast<std::uint8_t>(group.value())});
  const Node& node = nodes_[block];
  index_.Insert(node.hash, BlockId(block));
  digest_ = digest_ ^ node.hash;
  ghosts_.Forget(node.hash.low);
  if (pins_.Contains(node.hash)) PinByHash(block);
  ReportStored(node);
}

void PrefixCache::StorePartial(const BlockChain& chain, std::span<const BlockId> blocks, std::uint32_t token_count,
                               EvictionGroup group) {
  ROOST_CHECK(!blocks.empty() && token_count > 0 && token_count < block_tokens_, "{} tokens", token_count);
  const BlockId own = blocks.back();
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  const auto before = blocks.first(blocks.size() - 1);
  const std::optional<TailMatch> known = FindTail(chain, before, token_count);
  if (known && known->token_count == token_count) return;
  const std::uint32_t parent = before.empty() ? kNoBlock : before.back().value();
  // No hash names it; its key only tells it from most others.
  const BlockHash root = chain.RootAt(static_cast<std::uint32_t>(before.size()));
  const std::uint64_t key = Mix64((parent == kNoBlock ? root.low : nodes_[parent].hash.low) + token_count);
  Link(chain, own.value(),
       Node{.hash = {0, key},
            .root = root,
            .parent = parent,
            .position = static_cast<std::uint32_t>(before.size()),
            .token_count = static_cast<std::uint16_t>(token_count),
            .tenant = chain.TenantAt(static_cast<std::uint32_t>(before.size())),
            .group = static_cast<std::uint8_t>(group.value())});
}

// Puts `block` into the tree as `node` says.
void PrefixCache::Link(const BlockChain& chain, std::uint32_t block, const Node& node) {
  nodes_[block] = node;
  nodes_[block].ready = true;
  const auto tokens = chain.tokens.subspan(std::size_t{node.position} * block_tokens_, node.token_count);
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + std::ptrdiff_t{block} * block_tokens_);
  DropPrefixOf(block);
  siblings_.Insert(ChildrenOf(node.parent), block, TokenOrder(*this, block));
  tenants_.Join(node.tenant);
  if (IsTop(node)) tenants_.AddTop(node.tenant, block);
  ++groups_[node.group].ready_count;
  residency_.OnStored(BlockId(block), now_);
  counted_need_ = {};
  holds_.Begin(BlockId(block), now_);
}

bool PrefixCache::IsTop(const Node& node) const {
  return node.parent == kNoBlock || nodes_[node.parent].tenant != node.tenant;
}

// Removes the partial block, if there is one, that holds only the first tokens of `block`: it is useless now.
void PrefixCache::DropPrefixOf(std::uint32_t block) {
  const std::uint32_t before = siblings_.Neighbours(ChildrenOf(nodes_[block].parent), TokenOrder(*this, block)).before;
  if (before == kNoBlock || !IsPartial(before) || !IsIdle(before) || nodes_[before].root != nodes_[block].root) return;
  const auto prefix = StoredTokens(before);
  const auto tokens = StoredTokens(block);
  if (prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin()))
    Evict(BlockId(before));
}

// Removes a leaf from the tree and clears its node.
void PrefixCache::Remove(std::uint32_t block) {
  Node& node = nodes_[block];
  ROOST_CHECK(node.ready && node.children == kNoBlock && !node.pinned, "block {} is not a leaf to remove", block);
  siblings_.Erase(ChildrenOf(node.parent), block, TokenOrder(*this, block));
  if (IsTop(node)) tenants_.RemoveTop(node.tenant, block);
  tenants_.Leave(node.tenant);
  --groups_[node.group].ready_count;
  EndReservation(block);
  holds_.Forget(BlockId(block));
  retention_timers_.Clear(BlockId(block));
  StopRetaining(block);
  if (!IsPartial(block)) {
    index_.Erase(node.hash, BlockId(block));
    digest_ = digest_ ^ node.hash;
    events_.AddRemoved(node.hash);
  }
  node = Node{};
}

void PrefixCache::ReportStored(const Node& node) {
  const bool is_first = node.parent == kNoBlock;
  events_.AddStored(node.hash, node.position,
                    is_first ? std::nullopt : std::optional<BlockHash>(nodes_[node.parent].hash));
}

}  // namespace roost::worker

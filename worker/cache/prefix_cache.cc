#include "worker/cache/prefix_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {
namespace {

// Distances in blocks at which the index and the blocks are prefetched ahead of a match.
constexpr std::uint32_t kIndexAhead = 64;
constexpr std::uint32_t kBlockAhead = 16;

}  // namespace

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

PrefixCache::PrefixCache(BlockPool& pool, const CacheOptions& options, std::unique_ptr<EvictionPolicy> eviction)
    : pool_(pool),
      nodes_(pool.block_count(), options.block_tokens),
      siblings_(pool.block_count()),
      tenants_(pool.block_count()),
      tokens_(std::size_t{pool.block_count()} * options.block_tokens),
      claims_(nodes_, pool, tenants_, options, std::move(eviction)),
      ghosts_(pool.block_count()),
      residency_(pool.block_count()) {
  ROOST_CHECK(IsValidBlockTokens(nodes_.block_tokens), "block_tokens {}", nodes_.block_tokens);
}

void PrefixCache::AdvanceTo(Instant now) {
  now_ = now;
  claims_.AdvanceTo(now);
}

CacheCounters PrefixCache::counters() const {
  CacheCounters counters = counters_;
  counters.refused_pins = claims_.refused_pins();
  counters.refused_retentions = claims_.refused_retentions();
  return counters;
}

// ---- what a request does ----

// A match mostly waits for memory, so what comes next is prefetched. A prefix that was stored at once lies in blocks
// with consecutive numbers, up or down, so the next block numbers are known without the index. Otherwise the index says
// where the coming hashes probably are.
void PrefixCache::Match(const BlockChain& chain, std::uint32_t limit, std::vector<BlockRef>& matched) {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(limit, chain.hashes.size()));
  std::uint32_t parent = kNoBlock;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::optional<std::uint32_t> block = FindVerified(chain, i, parent);
    if (!block) return;
    matched.push_back(pool_.RefTo(BlockId(*block)));
    const std::uint32_t stride = *block - parent;
    if (parent != kNoBlock && (stride == 1 || stride == ~0U)) {
      const std::uint32_t guess = *block + stride * kBlockAhead;
      if (guess < nodes_.size()) PrefetchBlock(BlockId(guess));
    } else {
      PrefetchByHash(chain.hashes.first(count).subspan(i));
    }
    parent = *block;
  }
}

// Prefetches the blocks that will probably be matched some way after hashes[0].
void PrefixCache::PrefetchByHash(std::span<const BlockHash> hashes) const {
  if (kIndexAhead < hashes.size()) nodes_.by_hash.Prefetch(hashes[kIndexAhead]);
  if (kBlockAhead >= hashes.size()) return;
  if (const auto likely = nodes_.by_hash.Likely(hashes[kBlockAhead])) PrefetchBlock(*likely);
}

// Everything that a match and the request after it read of a block.
void PrefixCache::PrefetchBlock(BlockId block) const {
  roost::Prefetch(&nodes_[block.value()]);
  roost::Prefetch(&tokens_[std::size_t{block.value()} * nodes_.block_tokens]);
  pool_.Prefetch(block);
  claims_.Prefetch(block);
  residency_.Prefetch(block);
}

std::optional<BlockRef> PrefixCache::Find(const BlockChain& chain, std::uint32_t index,
                                          std::span<const BlockId> blocks) {
  ROOST_CHECK(index < chain.hashes.size() && index <= blocks.size());
  const std::uint32_t parent = index == 0 ? kNoBlock : blocks[index - 1].value();
  const std::optional<std::uint32_t> block = FindVerified(chain, index, parent);
  if (!block) return std::nullopt;
  return pool_.RefTo(BlockId(*block));
}

std::optional<TailMatch> PrefixCache::FindTail(const BlockChain& chain, std::span<const BlockId> blocks,
                                               std::uint32_t limit) const {
  const std::size_t begin = blocks.size() * nodes_.block_tokens;
  if (begin >= chain.tokens.size()) return std::nullopt;
  const auto rest =
      chain.tokens.subspan(begin, std::min<std::size_t>(chain.tokens.size() - begin, nodes_.block_tokens));
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

void PrefixCache::Acquire(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready,
              "block {} was freed since it was matched", block);
  if (pool_.references(ref.block) == 0) claims_.OnUsed(block);
  pool_.AddReference(ref.block);
  ++nodes_[block].hit_count;
  residency_.OnFound(ref.block, now_);
}

void PrefixCache::Release(BlockId id, const RequestUse& use, const RequestRetention& retention) {
  const std::uint32_t block = id.value();
  claims_.OnRelease(use.number);
  BlockNode& node = nodes_[block];
  const std::uint32_t holders = pool_.DropReference(id);
  if (!node.ready) {
    if (holders == 0) pool_.Free(id);
    return;
  }
  node.origin = nodes_.OriginFor(block, use);
  residency_.OnLetGo(id, now_);
  claims_.Retain(block, node.origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode, retention.tenant);
  if (holders == 0) claims_.OnIdle(block, use);
}

void PrefixCache::ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use,
                             const RequestRetention& retention) {
  claims_.RetainAll(blocks, use, retention);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (i >= 2 * kBlockAhead) PrefetchBlock(blocks[i - 2 * kBlockAhead]);
    if (i >= kBlockAhead) claims_.PrefetchIdle(nodes_[blocks[i - kBlockAhead].value()].hash);
    Release(blocks[i], use);
  }
}

std::optional<BlockId> PrefixCache::Allocate(EvictionGroup group) {
  if (pool_.free_count() == 0 && !EvictOne(group)) return std::nullopt;
  const std::optional<BlockId> block = pool_.Allocate();
  if (block) nodes_[block->value()].source = {};
  return block;
}

CommitResult PrefixCache::Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks,
                                 EvictionGroup group) {
  ROOST_CHECK(index < chain.hashes.size() && index < blocks.size());
  const BlockId own = blocks[index];
  const std::uint32_t parent = index == 0 ? kNoBlock : blocks[index - 1].value();
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  ROOST_CHECK(parent == kNoBlock || nodes_[parent].ready, "block {} has no ready parent", own.value());

  const std::optional<std::uint32_t> holder = nodes_.FindByHash(chain.hashes[index]);
  if (!holder) {
    Store(TokensOf(chain, index), own.value(),
          BlockNode{.hash = chain.hashes[index],
                    .root = chain.RootAt(index),
                    .parent = parent,
                    .position = index,
                    .tenant = chain.TenantAt(index),
                    .source = SourceOf(own),
                    .token_count = static_cast<std::uint16_t>(nodes_.block_tokens),
                    .group = static_cast<std::uint8_t>(group.value())});
    return {CommitResult::Kind::kStored, own};
  }
  return Holds(*holder, chain, index, parent) ? Merge(*holder, own) : Collide(own);
}

CommitResult PrefixCache::Merge(std::uint32_t equal, BlockId own) {
  Acquire(pool_.RefTo(BlockId(equal)));
  Release(own, {});
  return {CommitResult::Kind::kMerged, BlockId(equal)};
}

CommitResult PrefixCache::Collide(BlockId own) {
  ++counters_.verification_misses;
  return {CommitResult::Kind::kCollided, own};
}

// ---- blocks that were computed elsewhere ----

std::optional<BlockRef> PrefixCache::FindFollower(BlockHash hash, BlockHash root, std::optional<BlockId> parent) const {
  const std::optional<std::uint32_t> block = nodes_.FindByHash(hash);
  if (!block || nodes_[*block].root != root || nodes_[*block].parent != (parent ? parent->value() : kNoBlock))
    return {};
  return pool_.RefTo(BlockId(*block));
}

std::vector<BlockRef> PrefixCache::PathTo(BlockHash hash) const {
  std::vector<BlockRef> path;
  std::uint32_t block = nodes_.FindByHash(hash).value_or(kNoBlock);
  for (; block != kNoBlock; block = nodes_[block].parent) path.push_back(pool_.RefTo(BlockId(block)));
  std::reverse(path.begin(), path.end());
  return path;
}

void PrefixCache::Hold(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready, "block {} is stale", block);
  if (pool_.references(ref.block) == 0) claims_.OnUsed(block);
  pool_.AddReference(ref.block);
}

CommitResult PrefixCache::CommitForeign(const ForeignBlock& block, std::optional<BlockId> parent_id, BlockId own,
                                        EvictionGroup group) {
  const std::uint32_t parent = parent_id ? parent_id->value() : kNoBlock;
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  ROOST_CHECK(
      parent == kNoBlock ? block.position == 0 : nodes_[parent].ready && nodes_[parent].position + 1 == block.position,
      "block {} does not follow its parent", own.value());
  ROOST_CHECK(block.tokens.size() == nodes_.block_tokens, "{} tokens", block.tokens.size());
  const std::optional<std::uint32_t> holder = nodes_.FindByHash(block.hash);
  if (!holder) {
    Store(block.tokens, own.value(),
          BlockNode{.hash = block.hash,
                    .root = block.root,
                    .parent = parent,
                    .position = block.position,
                    .tenant = block.tenant,
                    .source = block.source,
                    .token_count = static_cast<std::uint16_t>(nodes_.block_tokens),
                    .group = static_cast<std::uint8_t>(group.value())});
    return {CommitResult::Kind::kStored, own};
  }
  const auto stored = StoredTokens(*holder);
  const bool is_equal = nodes_[*holder].parent == parent && nodes_[*holder].root == block.root &&
                        std::equal(stored.begin(), stored.end(), block.tokens.begin());
  return is_equal ? Merge(*holder, own) : Collide(own);
}

ReadyBlock PrefixCache::Describe(BlockId block) const {
  const BlockNode& node = nodes_[block.value()];
  ROOST_CHECK(node.ready && !nodes_.IsPartial(block.value()), "block {} is not ready", block.value());
  const bool begins_scope = node.parent == kNoBlock || nodes_[node.parent].root != node.root;
  return {.position = node.position,
          .hash = node.hash,
          .parent = begins_scope ? node.root : nodes_[node.parent].hash,
          .root = node.root,
          .tenant = node.tenant,
          .tokens = StoredTokens(block.value())};
}

// ---- what a request does, again ----

void PrefixCache::PrefetchCommit(BlockHash hash, BlockId block) const {
  nodes_.by_hash.Prefetch(hash);
  ghosts_.Prefetch(hash.low);
  PrefetchBlock(block);
}

void PrefixCache::StorePartial(const BlockChain& chain, std::span<const BlockId> blocks, std::uint32_t token_count,
                               EvictionGroup group) {
  ROOST_CHECK(!blocks.empty() && token_count > 0 && token_count < nodes_.block_tokens, "{} tokens", token_count);
  const BlockId own = blocks.back();
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  const auto before = blocks.first(blocks.size() - 1);
  const std::optional<TailMatch> known = FindTail(chain, before, token_count);
  if (known && known->token_count == token_count) return;
  const std::uint32_t parent = before.empty() ? kNoBlock : before.back().value();
  // No hash names it; its key only tells it from most others.
  const BlockHash root = chain.RootAt(static_cast<std::uint32_t>(before.size()));
  const std::uint64_t key = Mix64((parent == kNoBlock ? root.low : nodes_[parent].hash.low) + token_count);
  Link(chain.tokens.subspan(before.size() * nodes_.block_tokens, token_count), own.value(),
       BlockNode{.hash = {0, key},
                 .root = root,
                 .parent = parent,
                 .position = static_cast<std::uint32_t>(before.size()),
                 .tenant = chain.TenantAt(static_cast<std::uint32_t>(before.size())),
                 .source = SourceOf(own),
                 .token_count = static_cast<std::uint16_t>(token_count),
                 .group = static_cast<std::uint8_t>(group.value())});
}

// ---- eviction ----

bool PrefixCache::EvictOne(EvictionGroup group) {
  const std::optional<std::uint32_t> victim = claims_.Victim(group);
  if (victim) Evict(*victim);
  return victim.has_value();
}

bool PrefixCache::EvictHeld(EvictionGroup group) {
  const std::optional<std::uint32_t> victim = claims_.HeldVictim(group);
  if (victim) Evict(*victim);
  return victim.has_value();
}

void PrefixCache::Evict(std::uint32_t victim) {
  const BlockId id(victim);
  const std::uint32_t parent = nodes_[victim].parent;
  PrefetchEvictionsAfter(victim);
  claims_.OnEvicted(victim);
  residency_.OnEvicted(id, now_);
  if (!nodes_.IsPartial(victim)) ghosts_.Remember(nodes_[victim].hash.low);
  Remove(victim);
  pool_.Free(id);
  ++counters_.evicted_blocks;
  if (parent != kNoBlock) claims_.OnChildLost(parent);
}

// A prefix is evicted back to front, so the ancestors of an evicted block usually follow. The memory that this reads is
// prefetched two blocks ahead, which is about the latency of memory.
void PrefixCache::PrefetchEvictionsAfter(std::uint32_t block) const {
  const std::uint32_t parent = nodes_[block].parent;
  if (parent == kNoBlock || nodes_[parent].parent == kNoBlock) return;
  const BlockNode& ahead = nodes_[nodes_[parent].parent];
  nodes_.by_hash.Prefetch(ahead.hash);
  ghosts_.Prefetch(ahead.hash.low);
  if (ahead.parent != kNoBlock) PrefetchBlock(BlockId(ahead.parent));
}

// ---- blocks that may be wrong ----

void PrefixCache::Discard(const BlockChain& chain, std::uint32_t first) {
  std::uint32_t parent = kNoBlock;
  std::uint32_t index = 0;
  while (index < chain.hashes.size()) {
    const std::optional<std::uint32_t> block = FindVerified(chain, index, parent);
    if (!block) break;
    if (index == first) return DiscardTree(*block);
    parent = *block;
    ++index;
  }
  while (const std::optional<std::uint32_t> partial = FindPartialOf(chain, index, parent)) DiscardTree(*partial);
}

std::uint32_t PrefixCache::DiscardFrom(SourceId source) {
  const std::uint32_t before = ready_count();
  for (std::uint32_t block = 0; block < nodes_.size(); ++block) {
    if (nodes_[block].ready && nodes_[block].source == source) DiscardTree(block);
  }
  return before - ready_count();
}

// Discards children before parents.
void PrefixCache::DiscardTree(std::uint32_t first) {
  std::uint32_t block = first;
  while (nodes_[first].ready) {
    const BlockNode& node = nodes_[block];
    if (node.children != kNoBlock) {
      block = node.children;
    } else {
      const std::uint32_t parent = node.parent;
      DiscardLeaf(block);
      block = parent;
    }
  }
}

// A pin stays in the table, for the block that will be computed in place of this one.
void PrefixCache::DiscardLeaf(std::uint32_t block) {
  const std::uint32_t parent = nodes_[block].parent;
  claims_.EndPin(block);
  const bool idle = claims_.IsIdle(block);
  if (idle) claims_.OnDiscarded(block);
  Remove(block);
  if (idle) {
    pool_.Free(BlockId(block));
  } else {
    pool_.MakeStale(BlockId(block));
  }
  if (parent != kNoBlock) claims_.OnChildLost(parent);
}

// ---- what is kept ----

void PrefixCache::EndRetention(BlockRef last, const RequestRetention& retention) {
  if (last.generation != pool_.generation(last.block) || !nodes_[last.block.value()].ready) return;
  claims_.EndRetention(last.block.value(), retention);
}

void PrefixCache::Want(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready, "block {} is stale", block);
  claims_.Want(block);
}

void PrefixCache::Unwant(BlockRef ref) {
  if (ref.generation == pool_.generation(ref.block)) claims_.Unwant(ref.block.value());
}

std::vector<wire::CacheEvent> PrefixCache::TakeEvents() {
  std::vector<wire::CacheEvent> events;
  events_.TakeTo(events);
  return events;
}

// ---- the tree ----

std::optional<std::uint32_t> PrefixCache::FindVerified(const BlockChain& chain, std::uint32_t index,
                                                       std::uint32_t parent) {
  const std::uint32_t child = ChildrenOf(parent);
  const bool is_it = parent != kNoBlock && child != kNoBlock && nodes_[child].hash == chain.hashes[index];
  const std::optional<std::uint32_t> holder = is_it ? child : nodes_.FindByHash(chain.hashes[index]);
  if (!holder || Holds(*holder, chain, index, parent)) return holder;
  ++counters_.verification_misses;
  return std::nullopt;
}

// True only if the whole prefix and its scope are equal, by induction over the parents.
bool PrefixCache::Holds(std::uint32_t block, const BlockChain& chain, std::uint32_t index, std::uint32_t parent) const {
  const BlockNode& node = nodes_[block];
  const auto stored = StoredTokens(block);
  const auto wanted = TokensOf(chain, index);
  return node.parent == parent && node.root == chain.RootAt(index) &&
         std::equal(stored.begin(), stored.end(), wanted.begin());
}

std::span<const TokenId> PrefixCache::TokensOf(const BlockChain& chain, std::uint32_t index) const {
  ROOST_CHECK((std::size_t{index} + 1) * nodes_.block_tokens <= chain.tokens.size(), "block {} has no tokens", index);
  return chain.tokens.subspan(std::size_t{index} * nodes_.block_tokens, nodes_.block_tokens);
}

std::span<const TokenId> PrefixCache::StoredTokens(std::uint32_t block) const {
  return std::span(tokens_).subspan(std::size_t{block} * nodes_.block_tokens, nodes_[block].token_count);
}

std::uint32_t& PrefixCache::ChildrenOf(std::uint32_t parent) {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

std::uint32_t PrefixCache::ChildrenOf(std::uint32_t parent) const {
  return parent == kNoBlock ? first_blocks_ : nodes_[parent].children;
}

// A partial block that is a child of `parent` and holds only tokens that the chain has after its first `count` blocks.
std::optional<std::uint32_t> PrefixCache::FindPartialOf(const BlockChain& chain, std::uint32_t count,
                                                        std::uint32_t parent) const {
  const auto rest = chain.tokens.subspan(std::min(chain.tokens.size(), std::size_t{count} * nodes_.block_tokens));
  const auto begin = rest.first(std::min<std::size_t>(rest.size(), nodes_.block_tokens));
  const auto [before, after] = siblings_.Neighbours(ChildrenOf(parent), TokenOrder(*this, chain.RootAt(count), begin));
  for (const std::uint32_t block : {before, after}) {
    if (block == kNoBlock || !nodes_.IsPartial(block) || nodes_[block].root != chain.RootAt(count)) continue;
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

void PrefixCache::Store(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& as) {
  Link(tokens, block, as);
  const BlockNode& node = nodes_[block];
  nodes_.by_hash.Insert(node.hash, BlockId(block));
  digest_ = digest_ ^ node.hash;
  ghosts_.Forget(node.hash.low);
  claims_.PinIfAwaited(block);
  ReportStored(node);
  if (notes_changes_) changes_.stored.push_back(pool_.RefTo(BlockId(block)));
}

// Puts `block`, which holds `tokens`, into the tree as `node` says.
void PrefixCache::Link(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& node) {
  nodes_[block] = node;
  nodes_[block].ready = true;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + std::ptrdiff_t{block} * nodes_.block_tokens);
  DropPrefixOf(block);
  siblings_.Insert(ChildrenOf(node.parent), block, TokenOrder(*this, block));
  tenants_.Join(node.tenant);
  if (IsTop(node)) tenants_.AddTop(node.tenant, block);
  residency_.OnStored(BlockId(block), now_);
  claims_.OnStored(block);
}

bool PrefixCache::IsTop(const BlockNode& node) const {
  return node.parent == kNoBlock || nodes_[node.parent].tenant != node.tenant;
}

// Removes the partial block, if there is one, that holds only the first tokens of `block`: it is useless now.
void PrefixCache::DropPrefixOf(std::uint32_t block) {
  const std::uint32_t before = siblings_.Neighbours(ChildrenOf(nodes_[block].parent), TokenOrder(*this, block)).before;
  if (before == kNoBlock || !nodes_.IsPartial(before) || !claims_.IsIdle(before)) return;
  if (nodes_[before].root != nodes_[block].root) return;
  const auto prefix = StoredTokens(before);
  const auto tokens = StoredTokens(block);
  if (prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin())) Evict(before);
}

// Removes a leaf from the tree and clears its node.
void PrefixCache::Remove(std::uint32_t block) {
  BlockNode& node = nodes_[block];
  ROOST_CHECK(node.ready && node.children == kNoBlock, "block {} is not a leaf to remove", block);
  siblings_.Erase(ChildrenOf(node.parent), block, TokenOrder(*this, block));
  if (IsTop(node)) tenants_.RemoveTop(node.tenant, block);
  tenants_.Leave(node.tenant);
  claims_.OnRemoved(block);
  if (!nodes_.IsPartial(block)) {
    nodes_.by_hash.Erase(node.hash, BlockId(block));
    digest_ = digest_ ^ node.hash;
    events_.AddRemoved(node.hash);
    if (notes_changes_) changes_.removed.push_back(BlockId(block));
  }
  node = BlockNode{};
}

void PrefixCache::ReportStored(const BlockNode& node) {
  const bool is_first = node.parent == kNoBlock;
  events_.AddStored(node.hash, node.position,
                    is_first ? std::nullopt : std::optional<BlockHash>(nodes_[node.parent].hash));
}

}  // namespace roost::worker

#include "worker/cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {
namespace {

// Distances in blocks at which the index and the blocks are prefetched ahead of a match.
constexpr std::uint32_t kIndexAhead = 64;
constexpr std::uint32_t kBlockAhead = 16;

}  // namespace

PrefixCache::PrefixCache(BlockPool& pool, const CacheOptions& options, std::unique_ptr<EvictionPolicy> eviction)
    : pool_(pool),
      tree_(pool.block_count(), options.block_tokens),
      tenants_(pool.block_count()),
      claims_(tree_, pool, tenants_, options, std::move(eviction)),
      ghosts_(pool.block_count()),
      residency_(pool.block_count()) {}

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
      if (guess < tree_.size()) PrefetchBlock(BlockId(guess));
    } else {
      PrefetchByHash(chain.hashes.first(count).subspan(i));
    }
    parent = *block;
  }
}

// Prefetches the blocks that will probably be matched some way after hashes[0].
void PrefixCache::PrefetchByHash(std::span<const BlockHash> hashes) const {
  if (kIndexAhead < hashes.size()) tree_.by_hash().Prefetch(hashes[kIndexAhead]);
  if (kBlockAhead >= hashes.size()) return;
  if (const auto likely = tree_.by_hash().Likely(hashes[kBlockAhead])) PrefetchBlock(*likely);
}

// Everything that a match and the request after it read of a block.
void PrefixCache::PrefetchBlock(BlockId block) const {
  tree_.Prefetch(block);
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
  const std::size_t begin = blocks.size() * tree_.block_tokens();
  if (begin >= chain.tokens.size()) return std::nullopt;
  const auto rest =
      chain.tokens.subspan(begin, std::min<std::size_t>(chain.tokens.size() - begin, tree_.block_tokens()));
  const std::uint32_t parent = blocks.empty() ? kNoBlock : blocks.back().value();
  const BlockHash root = chain.RootAt(static_cast<std::uint32_t>(blocks.size()));
  const auto [before, after] = tree_.Neighbours(parent, root, rest);
  TailMatch best;
  for (const std::uint32_t block : {before, after}) {
    if (block == kNoBlock || tree_[block].root != root) continue;
    const auto stored = tree_.TokensOf(block);
    const auto common = std::mismatch(rest.begin(), rest.end(), stored.begin(), stored.end()).first - rest.begin();
    const std::uint32_t count = std::min(limit, static_cast<std::uint32_t>(common));
    if (count > best.token_count) best = {pool_.RefTo(BlockId(block)), count};
  }
  if (best.token_count == 0) return std::nullopt;
  return best;
}

void PrefixCache::Acquire(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && tree_[block].ready,
              "block {} was freed since it was matched", block);
  if (pool_.references(ref.block) == 0) claims_.OnUsed(block);
  pool_.AddReference(ref.block);
  ++tree_[block].hit_count;
  residency_.OnFound(ref.block, now_);
}

void PrefixCache::Hold(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && tree_[block].ready, "block {} is stale", block);
  if (pool_.references(ref.block) == 0) claims_.OnUsed(block);
  pool_.AddReference(ref.block);
}

void PrefixCache::Release(BlockId id, const RequestUse& use, const RequestRetention& retention) {
  const std::uint32_t block = id.value();
  claims_.OnRelease(use.number);
  BlockNode& node = tree_[block];
  const std::uint32_t holders = pool_.DropReference(id);
  if (!node.ready) {
    if (holders == 0) pool_.Free(id);
    return;
  }
  node.origin = node.OriginFor(use, tree_.block_tokens());
  residency_.OnLetGo(id, now_);
  claims_.Retain(block, node.origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode, retention.tenant);
  if (holders == 0) claims_.OnIdle(block, use);
}

void PrefixCache::ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use, const RequestRetention& retention,
                             std::span<const FrontLifetime> lifetimes) {
  claims_.RetainAll(blocks, use, retention, lifetimes);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (i >= 2 * kBlockAhead) PrefetchBlock(blocks[i - 2 * kBlockAhead]);
    if (i >= kBlockAhead) claims_.PrefetchIdle(tree_[blocks[i - kBlockAhead].value()].hash);
    Release(blocks[i], use);
  }
}

std::optional<BlockId> PrefixCache::Allocate(EvictionGroup group) {
  if (pool_.free_count() == 0 && !EvictOne(group)) return std::nullopt;
  const std::optional<BlockId> block = pool_.Allocate();
  if (block) tree_[block->value()].source = {};
  return block;
}

CommitResult PrefixCache::Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks,
                                 EvictionGroup group) {
  ROOST_CHECK(index < chain.hashes.size() && index < blocks.size());
  const BlockId own = blocks[index];
  return CommitAs(BlockNode{.hash = chain.hashes[index],
                            .root = chain.RootAt(index),
                            .parent = index == 0 ? kNoBlock : blocks[index - 1].value(),
                            .position = index,
                            .tenant = chain.TenantAt(index),
                            .source = tree_[own.value()].source,
                            .token_count = static_cast<std::uint16_t>(tree_.block_tokens()),
                            .group = static_cast<std::uint8_t>(group.value())},
                  TokensOf(chain, index), own);
}

CommitResult PrefixCache::Commit(const NewBlock& block, std::optional<BlockId> parent, BlockId own,
                                 EvictionGroup group) {
  ROOST_CHECK(parent ? tree_[parent->value()].position + 1 == block.position : block.position == 0,
              "block {} does not follow its parent", own.value());
  ROOST_CHECK(block.tokens.size() == tree_.block_tokens(), "{} tokens", block.tokens.size());
  return CommitAs(BlockNode{.hash = block.hash,
                            .root = block.root,
                            .parent = parent ? parent->value() : kNoBlock,
                            .position = block.position,
                            .hit_count = block.hit_count,
                            .tenant = block.tenant,
                            .source = block.source,
                            .token_count = static_cast<std::uint16_t>(tree_.block_tokens()),
                            .group = static_cast<std::uint8_t>(group.value())},
                  block.tokens, own);
}

CommitResult PrefixCache::CommitAs(const BlockNode& node, std::span<const TokenId> tokens, BlockId own) {
  ROOST_CHECK(!tree_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  ROOST_CHECK(node.parent == kNoBlock || tree_[node.parent].ready, "block {} has no ready parent", own.value());
  const std::optional<std::uint32_t> holder = tree_.FindByHash(node.hash);
  if (!holder) {
    Store(tokens, own.value(), node);
    return {CommitResult::Kind::kStored, own};
  }
  if (tree_.Holds(*holder, node.parent, node.root, tokens)) return Merge(*holder, own);
  ++counters_.verification_misses;
  return {CommitResult::Kind::kCollided, own};
}

CommitResult PrefixCache::Merge(std::uint32_t equal, BlockId own) {
  Acquire(pool_.RefTo(BlockId(equal)));
  Release(own, {});
  return {CommitResult::Kind::kMerged, BlockId(equal)};
}

void PrefixCache::PrefetchCommit(BlockHash hash, BlockId block) const {
  tree_.by_hash().Prefetch(hash);
  ghosts_.Prefetch(hash.low);
  PrefetchBlock(block);
}

void PrefixCache::StorePartial(const BlockChain& chain, std::span<const BlockId> blocks, std::uint32_t token_count,
                               EvictionGroup group) {
  ROOST_CHECK(!blocks.empty() && token_count > 0 && token_count < tree_.block_tokens(), "{} tokens", token_count);
  const BlockId own = blocks.back();
  ROOST_CHECK(!tree_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  const auto before = blocks.first(blocks.size() - 1);
  const std::optional<TailMatch> known = FindTail(chain, before, token_count);
  if (known && known->token_count == token_count) return;
  const std::uint32_t parent = before.empty() ? kNoBlock : before.back().value();
  // No hash names it; its key only tells it from most others.
  const BlockHash root = chain.RootAt(static_cast<std::uint32_t>(before.size()));
  const std::uint64_t key = Mix64((parent == kNoBlock ? root.low : tree_[parent].hash.low) + token_count);
  Link(chain.tokens.subspan(before.size() * tree_.block_tokens(), token_count), own.value(),
       BlockNode{.hash = {0, key},
                 .root = root,
                 .parent = parent,
                 .position = static_cast<std::uint32_t>(before.size()),
                 .tenant = chain.TenantAt(static_cast<std::uint32_t>(before.size())),
                 .source = tree_[own.value()].source,
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
  const std::uint32_t parent = tree_[victim].parent;
  PrefetchEvictionsAfter(victim);
  claims_.OnEvicted(victim);
  residency_.OnEvicted(id, now_);
  if (!tree_.IsPartial(victim)) ghosts_.Remember(tree_[victim].hash.low);
  Remove(victim);
  pool_.Free(id);
  ++counters_.evicted_blocks;
  if (parent != kNoBlock) claims_.OnChildLost(parent);
}

// A prefix is evicted back to front, so the ancestors of an evicted block usually follow. The memory that this reads is
// prefetched two blocks ahead, which is about the latency of memory.
void PrefixCache::PrefetchEvictionsAfter(std::uint32_t block) const {
  const std::uint32_t parent = tree_[block].parent;
  if (parent == kNoBlock || tree_[parent].parent == kNoBlock) return;
  const BlockNode& ahead = tree_[tree_[parent].parent];
  tree_.by_hash().Prefetch(ahead.hash);
  ghosts_.Prefetch(ahead.hash.low);
  if (ahead.parent != kNoBlock) PrefetchBlock(BlockId(ahead.parent));
}

// ---- what is kept ----

void PrefixCache::EndRetention(BlockRef last, const RequestRetention& retention) {
  if (last.generation != pool_.generation(last.block) || !tree_[last.block.value()].ready) return;
  claims_.EndRetention(last.block.value(), retention);
}

void PrefixCache::Want(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && tree_[block].ready, "block {} is stale", block);
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
  const std::uint32_t child = parent == kNoBlock ? kNoBlock : tree_[parent].children;
  const bool is_it = child != kNoBlock && tree_[child].hash == chain.hashes[index];
  const std::optional<std::uint32_t> holder = is_it ? child : tree_.FindByHash(chain.hashes[index]);
  if (!holder || tree_.Holds(*holder, parent, chain.RootAt(index), TokensOf(chain, index))) return holder;
  ++counters_.verification_misses;
  return std::nullopt;
}

std::span<const TokenId> PrefixCache::TokensOf(const BlockChain& chain, std::uint32_t index) const {
  ROOST_CHECK((std::size_t{index} + 1) * tree_.block_tokens() <= chain.tokens.size(), "block {} has no tokens", index);
  return chain.tokens.subspan(std::size_t{index} * tree_.block_tokens(), tree_.block_tokens());
}

void PrefixCache::Store(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& as) {
  Link(tokens, block, as);
  const BlockNode& node = tree_[block];
  tree_.by_hash().Insert(node.hash, BlockId(block));
  digest_ = digest_ ^ node.hash;
  ghosts_.Forget(node.hash.low);
  claims_.PinIfAwaited(block);
  ReportStored(node);
  if (changes_ != nullptr) changes_->stored.push_back(pool_.RefTo(BlockId(block)));
}

// Puts `block`, which holds `tokens`, into the tree as `node` says.
void PrefixCache::Link(std::span<const TokenId> tokens, std::uint32_t block, const BlockNode& node) {
  const std::uint32_t before = tree_.Write(block, tokens, node);
  DropIfPrefix(before, block);
  tree_.Link(block);
  tenants_.Join(node.tenant);
  if (IsTop(tree_, node)) tenants_.AddTop(node.tenant, block);
  residency_.OnStored(BlockId(block), now_);
  claims_.OnStored(block);
}

// Evicts the sibling before `block` if it is a partial block that holds only the first tokens of `block`: it is useless
// now.
void PrefixCache::DropIfPrefix(std::uint32_t before, std::uint32_t block) {
  if (before == kNoBlock || !tree_.IsPartial(before) || !claims_.IsIdle(before)) return;
  if (tree_[before].root != tree_[block].root) return;
  const auto prefix = tree_.TokensOf(before);
  const auto tokens = tree_.TokensOf(block);
  if (prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin())) Evict(before);
}

// Removes a leaf from the tree and clears its node.
void PrefixCache::Remove(std::uint32_t block) {
  BlockNode& node = tree_[block];
  tree_.Unlink(block);
  if (IsTop(tree_, node)) tenants_.RemoveTop(node.tenant, block);
  tenants_.Leave(node.tenant);
  claims_.OnRemoved(block);
  if (!tree_.IsPartial(block)) {
    tree_.by_hash().Erase(node.hash, BlockId(block));
    digest_ = digest_ ^ node.hash;
    events_.AddRemoved(node.hash);
    if (changes_ != nullptr) changes_->removed.push_back(BlockId(block));
  }
  node = BlockNode{};
}

void PrefixCache::ReportStored(const BlockNode& node) {
  const bool is_first = node.parent == kNoBlock;
  events_.AddStored(node.hash, node.position,
                    is_first ? std::nullopt : std::optional<BlockHash>(tree_[node.parent].hash));
}

}  // namespace roost::worker

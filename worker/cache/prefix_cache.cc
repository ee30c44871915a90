#include "worker/cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace roost::worker {
namespace {

// How far ahead of the walk the index is read. A walk's only slow part is memory, and the hashes to come are known.
constexpr std::uint32_t kPrefetchDistance = 8;

}  // namespace

PrefixCache::PrefixCache(BlockPool& pool, std::uint32_t block_tokens, std::unique_ptr<EvictionPolicy> eviction)
    : pool_(pool),
      block_tokens_(block_tokens),
      eviction_(std::move(eviction)),
      index_(pool.block_count()),
      nodes_(pool.block_count()),
      tokens_(std::size_t{pool.block_count()} * block_tokens) {
  ROOST_CHECK(IsValidBlockTokens(block_tokens), "block_tokens {}", block_tokens);
}

void PrefixCache::Match(const BlockChain& chain, std::uint32_t limit, std::vector<BlockRef>& matched) {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(limit, chain.hashes.size()));
  for (std::uint32_t i = 0; i < std::min(count, kPrefetchDistance); ++i) index_.Prefetch(chain.hashes[i]);
  std::uint32_t parent = kNoBlock;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < count) index_.Prefetch(chain.hashes[i + kPrefetchDistance]);
    const std::optional<std::uint32_t> block = FindVerified(chain, i, parent);
    if (!block) return;
    matched.push_back(pool_.RefTo(BlockId(*block)));
    parent = *block;
  }
}

std::optional<BlockRef> PrefixCache::Find(const BlockChain& chain, std::uint32_t index,
                                          std::span<const BlockId> blocks) {
  ROOST_CHECK(index < chain.hashes.size() && index <= blocks.size());
  const std::uint32_t parent = index == 0 ? kNoBlock : blocks[index - 1].value();
  const std::optional<std::uint32_t> block = FindVerified(chain, index, parent);
  if (!block) return std::nullopt;
  return pool_.RefTo(BlockId(*block));
}

void PrefixCache::Acquire(BlockRef ref) {
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[ref.block.value()].ready,
              "block {} was freed since it was matched", ref.block.value());
  if (pool_.references(ref.block) == 0) eviction_->Erase(ref.block);
  pool_.AddReference(ref.block);
  ++nodes_[ref.block.value()].hit_count;
}

void PrefixCache::Release(BlockId block, const RequestUse& use) {
  if (pool_.DropReference(block) > 0) return;
  if (nodes_[block.value()].ready) {
    eviction_->Insert(block, UseOf(block.value(), use), PlaceOf(block.value()));
  } else {
    pool_.Free(block);
  }
}

BlockUse PrefixCache::UseOf(std::uint32_t block, const RequestUse& use) const {
  const Node& node = nodes_[block];
  const bool within_prompt = (std::uint64_t{node.position} + 1) * block_tokens_ <= use.prompt_token_count;
  return {.key = node.hash.low,
          .position = node.position,
          .hit_count = node.hit_count,
          .origin = within_prompt ? BlockOrigin::kPrompt : BlockOrigin::kDecode,
          .group = EvictionGroup(0),
          .request = use};
}

TreePlace PrefixCache::PlaceOf(std::uint32_t block) const {
  return nodes_[block].first_child == kNoBlock ? TreePlace::kLeaf : TreePlace::kInner;
}

std::optional<BlockId> PrefixCache::Allocate() {
  if (pool_.free_count() == 0 && !EvictOne()) return std::nullopt;
  return pool_.Allocate();
}

CommitResult PrefixCache::Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks) {
  ROOST_CHECK(index < chain.hashes.size() && index < blocks.size());
  const BlockId own = blocks[index];
  const std::uint32_t parent = index == 0 ? kNoBlock : blocks[index - 1].value();
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  ROOST_CHECK(parent == kNoBlock || nodes_[parent].ready, "block {} has no ready parent", own.value());

  const std::optional<BlockId> holder = index_.Find(chain.hashes[index]);
  if (!holder) {
    Store(chain, index, own.value(), parent);
    return {CommitResult::Kind::kStored, own};
  }
  if (!Holds(holder->value(), chain, index, parent)) {
    ++counters_.verification_misses;
    return {CommitResult::Kind::kCollided, own};
  }
  Acquire(pool_.RefTo(*holder));
  Release(own, {});
  return {CommitResult::Kind::kMerged, *holder};
}

std::vector<wire::CacheEvent> PrefixCache::TakeEvents() { return std::exchange(events_, {}); }

std::optional<std::uint32_t> PrefixCache::FindVerified(const BlockChain& chain, std::uint32_t index,
                                                       std::uint32_t parent) {
  const std::optional<BlockId> holder = index_.Find(chain.hashes[index]);
  if (!holder) return std::nullopt;
  if (!Holds(holder->value(), chain, index, parent)) {
    ++counters_.verification_misses;
    return std::nullopt;
  }
  return holder->value();
}

// By induction over the parents, true only if the whole prefix and its scope are equal.
bool PrefixCache::Holds(std::uint32_t block, const BlockChain& chain, std::uint32_t index, std::uint32_t parent) const {
  const Node& node = nodes_[block];
  const auto stored = StoredTokens(block);
  const auto wanted = TokensOf(chain, index);
  return node.parent == parent && node.root == chain.root && std::equal(stored.begin(), stored.end(), wanted.begin());
}

std::span<const TokenId> PrefixCache::TokensOf(const BlockChain& chain, std::uint32_t index) const {
  ROOST_CHECK((std::size_t{index} + 1) * block_tokens_ <= chain.tokens.size(), "block {} has no tokens", index);
  return chain.tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_);
}

std::span<TokenId> PrefixCache::StoredTokens(std::uint32_t block) {
  return std::span(tokens_).subspan(std::size_t{block} * block_tokens_, block_tokens_);
}

std::span<const TokenId> PrefixCache::StoredTokens(std::uint32_t block) const {
  return std::span(tokens_).subspan(std::size_t{block} * block_tokens_, block_tokens_);
}

std::uint32_t& PrefixCache::FirstChildOf(std::uint32_t parent) {
  return parent == kNoBlock ? first_of_roots_ : nodes_[parent].first_child;
}

void PrefixCache::Store(const BlockChain& chain, std::uint32_t index, std::uint32_t block, std::uint32_t parent) {
  std::uint32_t& first_child = FirstChildOf(parent);
  Node& node = nodes_[block];
  node = {.hash = chain.hashes[index],
          .root = chain.root,
          .parent = parent,
          .next_sibling = first_child,
          .position = index,
          .ready = true};
  if (first_child != kNoBlock) nodes_[first_child].previous_sibling = block;
  first_child = block;

  const auto tokens = TokensOf(chain, index);
  std::copy(tokens.begin(), tokens.end(), StoredTokens(block).begin());
  index_.Insert(node.hash, BlockId(block));
  digest_ = digest_ ^ node.hash;
  ReportStored(node);
}

// Takes an idle leaf out of the tree. Its node keeps nothing.
void PrefixCache::Remove(std::uint32_t block) {
  Node& node = nodes_[block];
  ROOST_CHECK(node.ready && node.first_child == kNoBlock, "block {} is not a leaf", block);
  if (node.previous_sibling == kNoBlock) {
    FirstChildOf(node.parent) = node.next_sibling;
  } else {
    nodes_[node.previous_sibling].next_sibling = node.next_sibling;
  }
  if (node.next_sibling != kNoBlock) nodes_[node.next_sibling].previous_sibling = node.previous_sibling;

  index_.Erase(node.hash);
  digest_ = digest_ ^ node.hash;
  ReportRemoved(node);
  node = Node{};
}

bool PrefixCache::EvictOne() {
  const std::optional<BlockId> victim = eviction_->Victim(EvictionGroup(0));
  if (!victim) return false;
  eviction_->Evict(*victim);
  const std::uint32_t parent = nodes_[victim->value()].parent;
  Remove(victim->value());
  pool_.Free(*victim);
  const bool parent_idle = parent != kNoBlock && pool_.references(BlockId(parent)) == 0;
  if (parent_idle && PlaceOf(parent) == TreePlace::kLeaf) eviction_->BecomeLeaf(BlockId(parent));
  ++counters_.evicted_blocks;
  return true;
}

// A block that continues the run reported last extends it.
void PrefixCache::ReportStored(const Node& node) {
  if (!events_.empty() && node.parent != kNoBlock && events_.back().kind == wire::CacheEvent::Kind::kStored) {
    std::vector<BlockHash>& run = events_.back().stored.hashes;
    if (run.back() == nodes_[node.parent].hash) {
      run.push_back(node.hash);
      return;
    }
  }
  events_.push_back({.kind = wire::CacheEvent::Kind::kStored,
                     .stored = {.first_position = node.position, .hashes = {node.hash}},
                     .removed = {}});
}

void PrefixCache::ReportRemoved(const Node& node) {
  if (events_.empty() || events_.back().kind != wire::CacheEvent::Kind::kRemoved) {
    events_.push_back({.kind = wire::CacheEvent::Kind::kRemoved, .stored = {}, .removed = {}});
  }
  events_.back().removed.push_back(node.hash);
}

}  // namespace roost::worker

#include "worker/cache/prefix_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {
namespace {

// How many blocks ahead of a match the index and the blocks are prefetched.
constexpr std::uint32_t kIndexAhead = 64;
constexpr std::uint32_t kBlockAhead = 16;

std::vector<std::uint32_t> SharesInBlocks(std::span<const double> shares, std::uint32_t block_count) {
  std::vector<std::uint32_t> blocks(1, block_count);
  for (const double share : shares) {
    ROOST_CHECK(share > 0 && share <= 1, "share {}", share);
    blocks.push_back(std::min(blocks[0], static_cast<std::uint32_t>(share * block_count)));
    blocks[0] -= blocks.back();
  }
  return blocks;
}

}  // namespace

PrefixCache::PrefixCache(BlockPool& pool, CacheOptions options, std::unique_ptr<EvictionPolicy> eviction)
    : pool_(pool),
      block_tokens_(options.block_tokens),
      pin_limit_(static_cast<std::uint32_t>(options.pinned_share_limit * pool.block_count())),
      held_share_limit_(options.held_share_limit),
      idle_(pool.block_count(), static_cast<std::uint32_t>(options.group_shares.size()) + 1, std::move(eviction)),
      index_(pool.block_count()),
      nodes_(pool.block_count()),
      siblings_(pool.block_count()),
      tenants_(pool.block_count()),
      tokens_(std::size_t{pool.block_count()} * options.block_tokens),
      holds_(pool.block_count(), options.min_hold),
      retention_timers_(pool.block_count(), Instant()),
      ghosts_(pool.block_count()),
      residency_(pool.block_count()) {
  ROOST_CHECK(IsValidBlockTokens(block_tokens_), "block_tokens {}", block_tokens_);
  ROOST_CHECK(held_share_limit_ >= 0 && held_share_limit_ <= 1, "held_share_limit {}", held_share_limit_);
  ROOST_CHECK(options.group_shares.size() < std::numeric_limits<std::uint8_t>::max());
  for (const std::uint32_t share : SharesInBlocks(options.group_shares, pool.block_count())) {
    groups_.push_back({.share = share});
  }
}

void PrefixCache::AdvanceTo(Instant now) {
  ROOST_CHECK(now >= now_, "time goes back");
  now_ = now;
  expired_timers_.clear();
  holds_.Expire(now, expired_timers_);
  retention_timers_.Expire(now, expired_timers_);
  for (const BlockId block : expired_timers_) {
    if (!holds_.IsYoung(block)) EndReservation(block.value());
    if (holds_.IsHeld(block)) {
      SettleHolds(block.value());
    } else {
      ReshelveByPriority(block.value());
    }
  }
  expired_pins_.clear();
  pins_.TakeExpired(now, expired_pins_);
  for (const BlockHash hash : expired_pins_) EndPin(hash);
}

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
  if (kIndexAhead < hashes.size()) index_.Prefetch(hashes[kIndexAhead]);
  if (kBlockAhead >= hashes.size()) return;
  if (const auto likely = index_.Likely(hashes[kBlockAhead])) PrefetchBlock(*likely);
}

// Everything that a match and the request after it read of a block.
void PrefixCache::PrefetchBlock(BlockId block) const {
  const std::size_t id = block.value();
  roost::Prefetch(&nodes_[id]);
  roost::Prefetch(&tokens_[id * block_tokens_]);
  pool_.Prefetch(block);
  idle_.Prefetch(block);
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

void PrefixCache::Acquire(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready,
              "block {} was freed since it was matched", block);
  if (pool_.references(ref.block) == 0) {
    const bool is_held_for_youth = holds_.IsHeld(ref.block) && holds_.IsYoung(ref.block);
    Unshelve(block);
    if (is_held_for_youth) Reserve(block);
  }
  pool_.AddReference(ref.block);
  ++nodes_[block].hit_count;
  residency_.OnFound(ref.block, now_);
}

void PrefixCache::Release(BlockId block, const RequestUse& use, const RequestRetention& retention) {
  latest_request_ = std::max(latest_request_, use.number);
  Node& node = nodes_[block.value()];
  if (node.ready) {
    const std::uint64_t end = std::uint64_t{node.position} * block_tokens_ + node.token_count;
    const bool within_prompt = end <= use.prompt_token_count;
    node.origin = within_prompt ? BlockOrigin::kPrompt : BlockOrigin::kDecode;
    residency_.OnLetGo(block, now_);
  }
  const std::uint32_t holders = pool_.DropReference(block);
  if (!node.ready) {
    if (holders == 0) pool_.Free(block);
    return;
  }
  Retain(block.value(), node.origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode);
  if (holders == 0) Shelve(block.value(), use);
}

void PrefixCache::ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use,
                             const RequestRetention& retention) {
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (i >= 2 * kBlockAhead) PrefetchBlock(blocks[i - 2 * kBlockAhead]);
    if (i >= kBlockAhead) idle_.PrefetchInsert(nodes_[blocks[i - kBlockAhead].value()].hash.low);
    Release(blocks[i], use, retention);
  }
}

std::optional<BlockId> PrefixCache::Allocate(EvictionGroup group) {
  if (pool_.free_count() == 0 && !EvictOne(group)) return std::nullopt;
  return pool_.Allocate();
}

CommitResult PrefixCache::Commit(const BlockChain& chain, std::uint32_t index, std::span<const BlockId> blocks,
                                 EvictionGroup group) {
  ROOST_CHECK(index < chain.hashes.size() && index < blocks.size());
  const BlockId own = blocks[index];
  const std::uint32_t parent = index == 0 ? kNoBlock : blocks[index - 1].value();
  ROOST_CHECK(!nodes_[own.value()].ready && pool_.references(own) == 1, "block {} is not the caller's", own.value());
  ROOST_CHECK(parent == kNoBlock || nodes_[parent].ready, "block {} has no ready parent", own.value());

  const std::optional<BlockId> holder = FindByHash(chain.hashes[index]);
  if (!holder) {
    Store(chain, index, own.value(), parent, group);
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

void PrefixCache::PrefetchCommit(BlockHash hash, BlockId block) const {
  index_.Prefetch(hash);
  ghosts_.Prefetch(hash.low);
  PrefetchBlock(block);
}

std::vector<wire::CacheEvent> PrefixCache::TakeEvents() {
  std::vector<wire::CacheEvent> events;
  events_.TakeTo(events);
  return events;
}

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

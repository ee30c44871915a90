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
      retained_(pool.block_count(), options.retained_share_limit, tenants_),
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
    if (!retention_timers_.IsSet(block)) StopRetaining(block.value());
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
    node.origin = OriginOf(block.value(), use);
    residency_.OnLetGo(block, now_);
  }
  const std::uint32_t holders = pool_.DropReference(block);
  if (!node.ready) {
    if (holders == 0) pool_.Free(block);
    return;
  }
  const BlockRetention& own = node.origin == BlockOrigin::kPrompt ? retention.prompt : retention.decode;
  if (!Retain(block.value(), own, retention.tenant)) ++counters_.refused_retentions;
  if (holders == 0) Shelve(block.value(), use);
}

void PrefixCache::ReleaseAll(std::span<const BlockId> blocks, const RequestUse& use,
                             const RequestRetention& retention) {
  RetainAll(blocks, use, retention);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    if (i >= 2 * kBlockAhead) PrefetchBlock(blocks[i - 2 * kBlockAhead]);
    if (i >= kBlockAhead) idle_.PrefetchInsert(nodes_[blocks[i - kBlockAhead].value()].hash.low);
    Release(blocks[i], use);
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

}  // namespace roost::worker

// The parts of the prefix cache that say which idle block stays and which goes: shelves, retention, pins, eviction.
#include <algorithm>

#include "common/base/check.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// ---- shelves: a pinned block is on none, all other idle blocks are in idle_ ----

bool PrefixCache::IsIdle(std::uint32_t block) const {
  return nodes_[block].ready && pool_.references(BlockId(block)) == 0;
}

bool PrefixCache::IsAvailable(BlockRef ref) const {
  return IsIdle(ref.block.value()) && !nodes_[ref.block.value()].pinned;
}

BlockUse PrefixCache::UseOf(std::uint32_t block, const RequestUse& use) const {
  const Node& node = nodes_[block];
  return {.key = node.hash.low,
          .position = node.position,
          .hit_count = node.hit_count,
          .origin = node.origin,
          .group = EvictionGroup(node.group),
          .request = use};
}

TreePlace PrefixCache::PlaceOf(std::uint32_t block) const {
  return nodes_[block].children == kNoBlock ? TreePlace::kLeaf : TreePlace::kInner;
}

void PrefixCache::Shelve(std::uint32_t block, const RequestUse& use) {
  const Node& node = nodes_[block];
  if (node.pinned) {
    ++idle_pinned_;
  } else if (node.wanted_count > 0) {
    idle_.InsertWanted(BlockId(block), EvictionGroup(node.group), PlaceOf(block));
  } else {
    idle_.Insert(BlockId(block), UseOf(block, use), PlaceOf(block), node.priority);
  }
}

void PrefixCache::Unshelve(std::uint32_t block) {
  if (nodes_[block].pinned) {
    --idle_pinned_;
  } else {
    idle_.Erase(BlockId(block));
  }
}

// What decides on the shelf of `block`, which is on none if it is idle, has changed since. Of the request that used it
// last no more is known than when.
void PrefixCache::Reshelve(std::uint32_t block) {
  const std::uint32_t prompt_end = nodes_[block].origin == BlockOrigin::kPrompt ? nodes_[block].position + 1 : 0;
  Shelve(block, {.number = latest_request_, .prompt_token_count = prompt_end * block_tokens_});
}

// ---- eviction ----

bool PrefixCache::EvictOne(EvictionGroup group) {
  std::optional<BlockId> victim = Victim(group, IdleBlocks::Reach::kUnwanted);
  if (!victim) victim = Victim(group, IdleBlocks::Reach::kWanted);
  if (!victim) return false;
  Evict(*victim);
  return true;
}

std::optional<BlockId> PrefixCache::Victim(EvictionGroup group, IdleBlocks::Reach reach) {
  const EvictionGroup first = FirstToGive(group);
  if (const auto block = idle_.Victim(first, reach)) return block;
  if (const auto block = idle_.Victim(group, reach)) return block;
  for (std::uint32_t other = 0; other < group_count(); ++other) {
    if (const auto block = idle_.Victim(EvictionGroup(other), reach)) return block;
  }
  return std::nullopt;
}

// A group over its share gives its own; else the one that is the furthest over its share; else, again, its own.
EvictionGroup PrefixCache::FirstToGive(EvictionGroup group) const {
  const auto excess = [this](std::uint32_t g) {
    return std::int64_t{groups_[g].ready_count} - std::int64_t{groups_[g].share};
  };
  if (excess(group.value()) > 0) return group;
  std::uint32_t furthest = group.value();
  for (std::uint32_t other = 0; other < group_count(); ++other) {
    if (excess(other) > std::max<std::int64_t>(0, excess(furthest))) furthest = other;
  }
  return EvictionGroup(furthest);
}

void PrefixCache::Evict(BlockId victim) {
  const std::uint32_t parent = nodes_[victim.value()].parent;
  idle_.Evict(victim);
  Remove(victim.value());
  pool_.Free(victim);
  ++counters_.evicted_blocks;
  if (parent == kNoBlock || !IsIdle(parent) || nodes_[parent].pinned) return;
  if (PlaceOf(parent) == TreePlace::kLeaf) idle_.BecomeLeaf(BlockId(parent));
}

// ---- retention ----

// Of two retentions the higher priority and the later end hold.
void PrefixCache::Retain(std::uint32_t block, const BlockRetention& retention) {
  if (!retention.end || *retention.end <= now_) return;
  Node& node = nodes_[block];
  const BlockId id(block);
  const bool retained = retention_timers_.IsSet(id);
  node.priority = static_cast<std::uint8_t>(retained ? std::max<std::uint32_t>(node.priority, retention.priority)
                                                     : retention.priority);
  if (!retained || retention_timers_.DeadlineOf(id) < *retention.end) retention_timers_.Set(id, *retention.end);
}

void PrefixCache::Want(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready, "block {} is stale", block);
  const bool moves = IsIdle(block) && nodes_[block].wanted_count == 0;
  if (moves) Unshelve(block);
  ++nodes_[block].wanted_count;
  if (moves) Reshelve(block);
}

void PrefixCache::Unwant(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  if (ref.generation != pool_.generation(ref.block)) return;
  ROOST_CHECK(nodes_[block].wanted_count > 0, "block {} is not wanted", block);
  const bool moves = IsIdle(block) && nodes_[block].wanted_count == 1;
  if (moves) Unshelve(block);
  --nodes_[block].wanted_count;
  if (moves) Reshelve(block);
}

// ---- pins: whoever is pinned has a pinned parent ----

void PrefixCache::Pin(std::span<const BlockHash> hashes, std::optional<Instant> end) {
  for (const BlockHash hash : hashes) {
    if (pins_.size() >= pin_limit_ && !pins_.Contains(hash)) {
      ++counters_.refused_pins;
      continue;
    }
    pins_.Add(hash, end);
    if (const std::optional<BlockId> block = index_.Find(hash)) PinReady(block->value());
  }
}

void PrefixCache::Unpin(std::span<const BlockHash> hashes) {
  for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
    pins_.Remove(*hash);
    EndPin(*hash);
  }
}

void PrefixCache::UnpinAll() {
  std::vector<BlockHash> hashes;
  pins_.TakeAll(hashes);
  // In any order: a block that is left pinned for a child's sake goes with the child.
  for (const BlockHash hash : hashes) EndPin(hash);
}

void PrefixCache::PinReady(std::uint32_t block) {
  Node& node = nodes_[block];
  if (node.pinned || (node.parent != kNoBlock && !nodes_[node.parent].pinned)) return;
  const bool idle = IsIdle(block);
  if (idle) Unshelve(block);
  node.pinned = true;
  ++pinned_count_;
  if (node.parent != kNoBlock) ++nodes_[node.parent].pinned_children;
  if (idle) Reshelve(block);
}

// `hash` is not in the pin table any more. A parent that was pinned for this block alone goes with it.
void PrefixCache::EndPin(BlockHash hash) {
  const std::optional<BlockId> found = index_.Find(hash);
  if (!found) return;
  for (std::uint32_t block = found->value(); block != kNoBlock;) {
    const Node& node = nodes_[block];
    if (!node.pinned || node.pinned_children > 0 || pins_.Contains(node.hash)) return;
    UnpinReady(block);
    block = node.parent;
  }
}

void PrefixCache::UnpinReady(std::uint32_t block) {
  Node& node = nodes_[block];
  const bool idle = IsIdle(block);
  if (idle) Unshelve(block);
  node.pinned = false;
  --pinned_count_;
  if (node.parent != kNoBlock) --nodes_[node.parent].pinned_children;
  if (idle) Reshelve(block);
}

}  // namespace roost::worker

// The parts of the prefix cache that decide which idle block stays and which goes: shelves, eviction, wants, pins.
// (The minimum hold: prefix_cache_holds.cc. Retention: prefix_cache_retention.cc.)
#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// ---- shelves: an idle block is in idle_, held ones in a list of their own; a pinned block is not ----

bool PrefixCache::IsIdle(std::uint32_t block) const {
  return nodes_[block].ready && pool_.references(BlockId(block)) == 0;
}

// True if EvictOne may evict it, once its children have gone.
bool PrefixCache::IsEvictable(std::uint32_t block) const {
  return IsIdle(block) && !nodes_[block].pinned && !holds_.IsHeld(BlockId(block));
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

std::optional<BlockId> PrefixCache::ParentOf(std::uint32_t block) const {
  if (nodes_[block].parent == kNoBlock) return std::nullopt;
  return BlockId(nodes_[block].parent);
}

// `block` became idle, or its pin has ended. Every idle block before it is pinned.
void PrefixCache::Shelve(std::uint32_t block, const RequestUse& use) {
  const bool should_hold = !nodes_[block].pinned && ShouldHold(block);
  EndReservation(block);
  if (nodes_[block].pinned) {
    ++idle_pinned_;
  } else if (should_hold) {
    Hold(block);
  } else {
    ShelveToEvict(block, use);
  }
}

void PrefixCache::ShelveToEvict(std::uint32_t block, const RequestUse& use) {
  Node& node = nodes_[block];
  if (node.wanted_count > 0) {
    idle_.InsertWanted(BlockId(block), EvictionGroup(node.group), PlaceOf(block));
  } else {
    node.shelf_priority = static_cast<std::uint8_t>(PriorityOf(block));
    idle_.Insert(BlockId(block), UseOf(block, use), PlaceOf(block), node.shelf_priority);
  }
}

void PrefixCache::Unshelve(std::uint32_t block) {
  if (nodes_[block].pinned) {
    --idle_pinned_;
  } else {
    idle_.Erase(BlockId(block));
    EndHold(block);
  }
}

// The use by the request that used `block` last: only its time is known.
RequestUse PrefixCache::LatestUse(std::uint32_t block) const {
  const std::uint32_t prompt_end = nodes_[block].origin == BlockOrigin::kPrompt ? nodes_[block].position + 1 : 0;
  return {.number = latest_request_, .prompt_token_count = prompt_end * block_tokens_};
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
  std::optional<BlockId> victim;
  std::int64_t turn = std::numeric_limits<std::int64_t>::min();
  for (std::uint32_t id = 0; id < group_count(); ++id) {
    const EvictionGroup giver(id);
    if (TurnToGive(giver, group) <= turn) continue;
    const std::optional<BlockId> block = idle_.Victim(giver, reach);
    if (!block) continue;
    victim = block;
    turn = TurnToGive(giver, group);
  }
  return victim;
}

// The group with the highest value gives way first to make space for `group`. `group` itself comes first if it is over
// its share, otherwise after all groups that are over theirs.
std::int64_t PrefixCache::TurnToGive(EvictionGroup giver, EvictionGroup group) const {
  const Group& state = groups_[giver.value()];
  const std::int64_t excess = std::int64_t{state.ready_count} - std::int64_t{state.share};
  if (giver != group) return excess > 0 ? excess : excess - 1;
  return excess > 0 ? std::numeric_limits<std::int64_t>::max() : 0;
}

void PrefixCache::Evict(BlockId victim) {
  const std::uint32_t parent = nodes_[victim.value()].parent;
  PrefetchEvictionsAfter(victim.value());
  idle_.Evict(victim);
  EndHold(victim.value());
  residency_.OnEvicted(victim, now_);
  if (!IsPartial(victim.value())) ghosts_.Remember(nodes_[victim.value()].hash.low);
  Remove(victim.value());
  pool_.Free(victim);
  ++counters_.evicted_blocks;
  LoseChild(parent);
}

void PrefixCache::LoseChild(std::uint32_t parent) {
  if (parent == kNoBlock || !IsIdle(parent) || nodes_[parent].pinned) return;
  if (PlaceOf(parent) == TreePlace::kLeaf) idle_.BecomeLeaf(BlockId(parent));
}

// A prefix is evicted back to front, so the ancestors of an evicted block usually follow. The memory that this reads is
// prefetched two blocks ahead, which is about the latency of memory.
void PrefixCache::PrefetchEvictionsAfter(std::uint32_t block) const {
  const std::uint32_t parent = nodes_[block].parent;
  if (parent == kNoBlock || nodes_[parent].parent == kNoBlock) return;
  const Node& ahead = nodes_[nodes_[parent].parent];
  index_.Prefetch(ahead.hash);
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

// Discards children before parents.
void PrefixCache::DiscardTree(std::uint32_t first) {
  std::uint32_t block = first;
  while (nodes_[first].ready) {
    const Node& node = nodes_[block];
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
  if (nodes_[block].has_pin) EndPin(nodes_[block].hash);
  const bool idle = IsIdle(block);
  if (idle) Unshelve(block);
  Remove(block);
  if (idle) {
    pool_.Free(BlockId(block));
  } else {
    pool_.MakeStale(BlockId(block));
  }
  LoseChild(parent);
}

// ---- wants ----

void PrefixCache::Want(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  ROOST_CHECK(ref.generation == pool_.generation(ref.block) && nodes_[block].ready, "block {} is stale", block);
  const bool moves = IsEvictable(block) && nodes_[block].wanted_count == 0;
  if (moves) idle_.Erase(ref.block);
  ++nodes_[block].wanted_count;
  if (moves) ShelveToEvict(block, LatestUse(block));
}

void PrefixCache::Unwant(BlockRef ref) {
  const std::uint32_t block = ref.block.value();
  if (ref.generation != pool_.generation(ref.block)) return;
  ROOST_CHECK(nodes_[block].wanted_count > 0, "block {} is not wanted", block);
  const bool moves = IsEvictable(block) && nodes_[block].wanted_count == 1;
  if (moves) idle_.Erase(ref.block);
  --nodes_[block].wanted_count;
  if (moves) ShelveToEvict(block, LatestUse(block));
}

// ---- pins: a pinned block's parent is pinned; a block with a pin is pinned, or its pin was refused ----

void PrefixCache::Pin(std::span<const BlockHash> hashes, std::optional<Instant> end) {
  for (const BlockHash hash : hashes) {
    if (!HasRoomToPin(hash)) {
      ++counters_.refused_pins;
      continue;
    }
    pins_.Add(hash, end);
    if (const std::optional<BlockId> block = FindByHash(hash)) PinByHash(block->value());
  }
}

bool PrefixCache::HasRoomToPin(BlockHash hash) const {
  if (PinCount() < pin_limit_ || pins_.Contains(hash)) return true;
  const std::optional<BlockId> block = FindByHash(hash);
  return block && nodes_[block->value()].pinned;
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
  // Any order works: a block that stays pinned for a child is unpinned with that child.
  for (const BlockHash hash : hashes) EndPin(hash);
}

PinCounts PrefixCache::PinsOf(std::span<const BlockHash> hashes) const {
  PinCounts counts;
  for (const BlockHash hash : hashes) {
    const std::optional<BlockId> block = FindByHash(hash);
    const bool is_pinned = block ? nodes_[block->value()].pinned : pins_.Contains(hash);
    ++(!is_pinned ? counts.refused : block ? counts.kept : counts.awaited);
  }
  return counts;
}

// `block` is ready, and its hash is in the pin table.
void PrefixCache::PinByHash(std::uint32_t block) {
  Node& node = nodes_[block];
  if (node.has_pin) return;
  if (node.pinned) {
    --pinned_for_children_;
  } else if (PinParentsOf(block)) {
    PinReady(block);
  } else {
    ++counters_.refused_pins;
    return;
  }
  node.has_pin = true;
}

// Pins the unpinned blocks in front of `block`, if there is space for all of them. Usually there are none; there are
// some when their pins ended before the blocks were ready.
bool PrefixCache::PinParentsOf(std::uint32_t block) {
  std::size_t count = 0;
  for (std::uint32_t parent = nodes_[block].parent; parent != kNoBlock && !nodes_[parent].pinned;
       parent = nodes_[parent].parent) {
    // A block in front had its pin refused, so this one is refused too, without a walk to the root for each block.
    if (pins_.Contains(nodes_[parent].hash) || PinCount() + ++count > pin_limit_) return false;
  }
  for (std::uint32_t parent = nodes_[block].parent; count > 0; --count, parent = nodes_[parent].parent) {
    PinReady(parent);
    ++pinned_for_children_;
  }
  return true;
}

void PrefixCache::PinReady(std::uint32_t block) {
  Node& node = nodes_[block];
  const bool idle = IsIdle(block);
  if (idle) Unshelve(block);
  node.pinned = true;
  counted_need_ = {};
  ++pinned_count_;
  if (node.parent != kNoBlock) ++nodes_[node.parent].pinned_children;
  if (idle) Shelve(block, LatestUse(block));
}

// The ready block with this hash loses its own pin. It stays pinned for pinned children; otherwise it is unpinned, and
// so are the parents that were pinned for this block alone.
void PrefixCache::EndPin(BlockHash hash) {
  const std::optional<BlockId> found = FindByHash(hash);
  if (!found || !nodes_[found->value()].has_pin) return;
  nodes_[found->value()].has_pin = false;
  ++pinned_for_children_;
  for (std::uint32_t block = found->value(); block != kNoBlock; block = nodes_[block].parent) {
    if (nodes_[block].has_pin || nodes_[block].pinned_children > 0) return;
    UnpinReady(block);
    --pinned_for_children_;
  }
}

void PrefixCache::UnpinReady(std::uint32_t block) {
  Node& node = nodes_[block];
  const bool idle = IsIdle(block);
  if (idle) Unshelve(block);
  node.pinned = false;
  counted_need_ = {};
  --pinned_count_;
  if (node.parent != kNoBlock) --nodes_[node.parent].pinned_children;
  if (idle) Shelve(block, LatestUse(block));
}

}  // namespace roost::worker

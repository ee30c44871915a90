// The part of the prefix cache that holds young blocks. A block before a held one is held, pinned or in use.
#include "worker/cache/prefix_cache.h"

namespace roost::worker {

// The blocks before `block` are still in use or pinned, and will be held because of it.
bool PrefixCache::ShouldHold(std::uint32_t block) {
  const BlockId id(block);
  if (holds_.held_children(id) > 0 || holds_.IsReserved(id)) return true;
  if (!holds_.IsYoung(id)) return false;
  const Group& group = groups_[nodes_[block].group];
  const double share = static_cast<double>(group.share) / pool_.block_count();
  const auto limit = static_cast<std::uint32_t>(held_share_limit_ * (pool_.block_count() - pinned_count_) * share);
  const std::uint32_t need = HoldNeed(block);
  counted_need_ = {nodes_[block].parent, need - 1};
  return group.held_count + group.reserved_count + need <= limit;
}

// The number of blocks that become held or reserved if `block` is held: `block` and those before it, less those that
// are pinned or reserved already. A request releases its blocks back to front, so usually the need of the block after
// this one has just been counted.
std::uint32_t PrefixCache::HoldNeed(std::uint32_t block) const {
  if (counted_need_.block == block) return counted_need_.need;
  std::uint32_t need = 1;
  for (std::uint32_t parent = nodes_[block].parent; parent != kNoBlock && !nodes_[parent].pinned;
       parent = nodes_[parent].parent) {
    need += holds_.IsReserved(BlockId(parent)) ? 0 : 1;
  }
  return need;
}

void PrefixCache::Hold(std::uint32_t block) {
  const BlockId id(block);
  holds_.Hold(id, ParentOf(block));
  ++groups_[nodes_[block].group].held_count;
  idle_.InsertHeld(id, EvictionGroup(nodes_[block].group), PlaceOf(block), holds_.AgeNumber(id));
}

// `block` is not in idle_ any more.
void PrefixCache::EndHold(std::uint32_t block) {
  if (!holds_.IsHeld(BlockId(block))) return;
  LetGo(block);
  SettleHolds(nodes_[block].parent);
}

void PrefixCache::Reserve(std::uint32_t block) {
  counted_need_ = {};
  holds_.Reserve(BlockId(block));
  ++groups_[nodes_[block].group].reserved_count;
}

void PrefixCache::EndReservation(std::uint32_t block) {
  if (!holds_.IsReserved(BlockId(block))) return;
  counted_need_ = {};
  holds_.EndReservation(BlockId(block));
  --groups_[nodes_[block].group].reserved_count;
}

void PrefixCache::LetGo(std::uint32_t block) {
  holds_.LetGo(BlockId(block), ParentOf(block));
  --groups_[nodes_[block].group].held_count;
}

// Ends holds that have no reason any more, from `last` on towards the front.
void PrefixCache::SettleHolds(std::uint32_t last) {
  for (std::uint32_t block = last; block != kNoBlock; block = nodes_[block].parent) {
    const BlockId id(block);
    if (!holds_.IsHeld(id) || holds_.IsYoung(id) || holds_.held_children(id) > 0) return;
    idle_.Erase(id);
    LetGo(block);
    ShelveToEvict(block, LatestUse(block));
  }
}

bool PrefixCache::EvictHeld(EvictionGroup group) {
  if (holds_.held_count() == 0) return false;
  const std::optional<BlockId> victim = Victim(group, IdleBlocks::Reach::kHeld);
  if (!victim) return false;
  Evict(*victim);
  return true;
}

}  // namespace roost::worker

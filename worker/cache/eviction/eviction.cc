#include "worker/cache/eviction/eviction.h"

namespace roost::worker {

LruEviction::LruEviction(std::uint32_t block_count, std::uint32_t group_count) : lists_(block_count, group_count) {}

void LruEviction::Insert(BlockId block, const BlockUse& use, TreePlace place) {
  lists_.PushBack(use.group.value(), block, place);
}

void LruEviction::BecomeLeaf(BlockId block) { lists_.BecomeLeaf(block); }

void LruEviction::Erase(BlockId block) { lists_.Erase(block); }

std::optional<BlockId> LruEviction::Victim(EvictionGroup group) { return lists_.FrontLeaf(group.value()); }

void LruEviction::Evict(BlockId block) { lists_.Erase(block); }

}  // namespace roost::worker

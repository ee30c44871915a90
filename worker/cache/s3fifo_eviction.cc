#include "worker/cache/s3fifo_eviction.h"

#include <algorithm>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kSmallShare = 10;  // the small queue should have one in this many idle blocks
constexpr std::uint32_t kMostChances = 3;

std::uint32_t NameOf(std::uint64_t key) { return static_cast<std::uint32_t>(Mix64(key)) | 1U; }

}  // namespace

S3FifoEviction::S3FifoEviction(std::uint32_t block_count, std::uint32_t group_count)
    : lists_(block_count, 2 * group_count),
      counts_(group_count),
      chances_(block_count),
      names_(block_count),
      ghosts_(std::max(1U, block_count)) {}

std::uint32_t S3FifoEviction::ListOf(std::uint32_t group, Queue queue) {
  return 2 * group + static_cast<std::uint32_t>(queue);
}

bool S3FifoEviction::IsSmall(BlockId block) const { return lists_.ListOf(block) % 2 == 0; }

std::uint32_t& S3FifoEviction::CountOf(BlockId block) {
  GroupCounts& counts = counts_[lists_.ListOf(block) / 2];
  return IsSmall(block) ? counts.small : counts.main;
}

std::uint32_t& S3FifoEviction::GhostSlot(std::uint64_t key) {
  const std::uint64_t name = NameOf(key);
  return ghosts_[(name * ghosts_.size()) >> 32U];
}

void S3FifoEviction::Insert(BlockId block, const BlockUse& use, TreePlace place) {
  const std::uint32_t name = NameOf(use.key);
  const bool known = use.hit_count > 0 || GhostSlot(use.key) == name;
  lists_.PushBack(ListOf(use.group.value(), known ? Queue::kMain : Queue::kSmall), block, place);
  ++CountOf(block);
  names_[block.value()] = name;
  chances_[block.value()] = static_cast<std::uint8_t>(std::min(use.hit_count, kMostChances));
}

void S3FifoEviction::BecomeLeaf(BlockId block) { lists_.BecomeLeaf(block); }

void S3FifoEviction::Erase(BlockId block) {
  --CountOf(block);
  lists_.Erase(block);
}

std::optional<BlockId> S3FifoEviction::Victim(EvictionGroup group) {
  const GroupCounts& counts = counts_[group.value()];
  const std::optional<BlockId> small = lists_.FrontLeaf(ListOf(group.value(), Queue::kSmall));
  if (small && std::uint64_t{counts.small} * kSmallShare > std::uint64_t{counts.small} + counts.main) return small;
  const std::optional<BlockId> main = MainVictim(group.value());
  return main ? main : small;
}

// Each pass over a block takes one chance from it, and a block is inserted with at most kMostChances, so the loop ends.
std::optional<BlockId> S3FifoEviction::MainVictim(std::uint32_t group) {
  const std::uint32_t list = ListOf(group, Queue::kMain);
  for (;;) {
    const std::optional<BlockId> leaf = lists_.FrontLeaf(list);
    if (!leaf || chances_[leaf->value()] == 0) return leaf;
    --chances_[leaf->value()];
    lists_.Erase(*leaf);
    lists_.PushBack(list, *leaf, TreePlace::kLeaf);
  }
}

void S3FifoEviction::Evict(BlockId block) {
  if (IsSmall(block)) {
    const std::uint64_t name = names_[block.value()];
    ghosts_[(name * ghosts_.size()) >> 32U] = names_[block.value()];
  }
  Erase(block);
}

}  // namespace roost::worker

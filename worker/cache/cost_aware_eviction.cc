#include "worker/cache/cost_aware_eviction.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace roost::worker {
namespace {

constexpr std::uint32_t kUseLevels = 6;    // 1, 2-3, … 32 and more uses
constexpr std::uint32_t kDepthLevels = 8;  // blocks 0, 1-2, 3-6, … 127 and deeper
constexpr std::uint32_t kLevels = kUseLevels * kDepthLevels;
// Each doubling of the depth adds this share of the cost of a block at the front.
constexpr double kCostPerDoubling = 0.25;

std::uint32_t Doublings(std::uint32_t x, std::uint32_t levels) {
  return std::min(static_cast<std::uint32_t>(std::bit_width(x)) - 1, levels - 1);
}

std::uint32_t LevelOf(const BlockUse& use) {
  return Doublings(use.hit_count + 1, kUseLevels) * kDepthLevels + Doublings(use.position + 1, kDepthLevels);
}

double WorthOf(std::uint32_t level) {
  return std::exp2(level / kDepthLevels) * (1 + kCostPerDoubling * (level % kDepthLevels));
}

}  // namespace

CostAwareEviction::CostAwareEviction(std::uint32_t block_count, std::uint32_t group_count)
    : lists_(block_count, group_count * kLevels), priority_(block_count) {}

void CostAwareEviction::Insert(BlockId block, const BlockUse& use, TreePlace place) {
  const std::uint32_t level = LevelOf(use);
  lists_.PushBack(use.group.value() * kLevels + level, block, place);
  priority_[block.value()] = clock_ + WorthOf(level);
}

void CostAwareEviction::BecomeLeaf(BlockId block) { lists_.BecomeLeaf(block); }

void CostAwareEviction::Erase(BlockId block) { lists_.Erase(block); }

std::optional<BlockId> CostAwareEviction::Victim(EvictionGroup group) {
  std::optional<BlockId> least;
  for (std::uint32_t level = 0; level < kLevels; ++level) {
    const std::optional<BlockId> leaf = lists_.FrontLeaf(group.value() * kLevels + level);
    if (leaf && (!least || priority_[leaf->value()] < priority_[least->value()])) least = leaf;
  }
  return least;
}

void CostAwareEviction::Evict(BlockId block) {
  clock_ = std::max(clock_, priority_[block.value()]);
  lists_.Erase(block);
}

}  // namespace roost::worker

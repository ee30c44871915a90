#include "worker/cache/eviction/ranked_lists.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace roost::worker {
namespace {

constexpr std::uint32_t kClasses = ReuseModel::kClassCount;
static_assert(kClasses <= 64, "a group's classes are bits of one word");

struct Candidate {
  std::optional<BlockId> leaf;
  float value = std::numeric_limits<float>::max();
  std::uint64_t time = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace

RankedLists::RankedLists(std::uint32_t block_count, std::uint32_t group_count)
    : depth_count_(std::clamp(LeafLists::kMaxLists / (group_count * kClasses), 1U, kDepths)),
      lists_(block_count, group_count * depth_count_ * kClasses),
      releases_(block_count),
      filled_(std::size_t{group_count} * depth_count_),
      newest_(std::size_t{group_count} * depth_count_ * kClasses) {}

// The doublings of the cost, as far as there are lists for them.
std::uint32_t RankedLists::DepthOf(std::uint32_t position) const {
  const auto cost = static_cast<std::uint32_t>(std::min(cost_.At(position), static_cast<float>(1U << kDepths)));
  return std::min(static_cast<std::uint32_t>(std::bit_width(cost)), depth_count_) - 1;
}

void RankedLists::PushBack(std::uint32_t group, std::uint32_t reuse_class, BlockId block, std::uint32_t position,
                           ReleaseTime time, TreePlace place) {
  const std::uint32_t list = (group * depth_count_ + DepthOf(position)) * kClasses + reuse_class;
  lists_.PushBack(list, block, place);
  MarkFilled(list);
  Newest& newest = newest_[list];
  if (newest.request != time.request || !newest.first) newest = {time.request, block};
  releases_[block.value()] = {.time = time.request << kPlaceBits | std::min(time.place, (1U << kPlaceBits) - 1),
                              .position = position,
                              .run_first = newest.first->value()};
}

void RankedLists::Erase(BlockId block) {
  const std::uint32_t list = lists_.ListOf(block);
  const bool begins_newest_run = newest_[list].first == block;
  if (begins_newest_run) newest_[list].first = lists_.After(block);
  lists_.Erase(block);
  const std::optional<BlockId> back = lists_.Back(list);
  if (!begins_newest_run || !back) return;
  if (newest_[list].first) {
    releases_[back->value()].run_first = newest_[list].first->value();
  } else {
    StepBack(list, *back);
  }
}

// If the first block of the run has been evicted at the other end, only the run's last block is found. A wrong
// candidate only makes the choice worse: it is still a leaf, and is ranked by its own time.
void RankedLists::StepBack(std::uint32_t list, BlockId back) {
  const BlockId first(releases_[back.value()].run_first);
  const std::uint64_t run = releases_[back.value()].time >> kPlaceBits;
  const bool still_there =
      lists_.Contains(first) && lists_.ListOf(first) == list && releases_[first.value()].time >> kPlaceBits == run;
  newest_[list] = {run, still_there ? first : back};
}

void RankedLists::BecomeLeaf(BlockId block) {
  lists_.BecomeLeaf(block);
  MarkFilled(lists_.ListOf(block));
}

void RankedLists::MarkFilled(std::uint32_t list) { filled_[list / kClasses] |= std::uint64_t{1} << (list % kClasses); }

std::optional<BlockId> RankedLists::FirstToGo(std::uint32_t group, Ranking ranking, const ReuseModel& model,
                                              std::uint64_t request) {
  Candidate least;
  const auto consider = [&](std::uint32_t reuse_class, BlockId leaf) {
    const Release& release = releases_[leaf.value()];
    const std::uint64_t age = request - (release.time >> kPlaceBits);
    const float value =
        ranking == Ranking::kLastUse ? 0 : model.DensityAt(reuse_class, age) * cost_.At(release.position);
    if (value < least.value || (value == least.value && release.time < least.time)) least = {leaf, value, release.time};
  };
  for (std::uint32_t part = group * depth_count_; part < (group + 1) * depth_count_; ++part) {
    for (std::uint64_t classes = filled_[part]; classes != 0; classes &= classes - 1) {
      const auto reuse_class = static_cast<std::uint32_t>(std::countr_zero(classes));
      const std::uint32_t list = part * kClasses + reuse_class;
      const std::optional<BlockId> oldest = lists_.FrontLeaf(list);
      if (!oldest) {
        filled_[part] &= ~(std::uint64_t{1} << reuse_class);
        continue;
      }
      consider(reuse_class, *oldest);
      const std::optional<BlockId> newest = newest_[list].first;
      if (ranking == Ranking::kHitDensity && newest && lists_.IsLeaf(*newest)) consider(reuse_class, *newest);
    }
  }
  return least.leaf;
}

}  // namespace roost::worker

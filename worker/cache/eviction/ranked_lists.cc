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
  float density = std::numeric_limits<float>::max();
  std::uint64_t time = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace

RankedLists::RankedLists(std::uint32_t block_count, std::uint32_t group_count)
    : lists_(block_count, group_count * kClasses),
      released_at_(block_count),
      filled_(group_count),
      newest_(group_count * kClasses),
      run_first_(block_count) {}

void RankedLists::PushBack(std::uint32_t group, std::uint32_t reuse_class, BlockId block, ReleaseTime time,
                           TreePlace place) {
  const std::uint32_t list = group * kClasses + reuse_class;
  lists_.PushBack(list, block, place);
  released_at_[block.value()] = time.request << kPlaceBits | std::min(time.place, (1U << kPlaceBits) - 1);
  MarkFilled(list);
  Newest& newest = newest_[list];
  if (newest.request != time.request || !newest.first) newest = {time.request, block};
  run_first_[block.value()] = newest.first->value();
}

void RankedLists::Erase(BlockId block) {
  const std::uint32_t list = lists_.ListOf(block);
  const bool begins_newest_run = newest_[list].first == block;
  if (begins_newest_run) newest_[list].first = lists_.After(block);
  lists_.Erase(block);
  const std::optional<BlockId> back = lists_.Back(list);
  if (!begins_newest_run || !back) return;
  if (newest_[list].first) {
    run_first_[back->value()] = newest_[list].first->value();
  } else {
    StepBack(list, *back);
  }
}

// If the first block of the run has been evicted at the other end, only the run's last block is found. A wrong
// candidate only makes the choice worse: it is still a leaf, and is ranked by its own time.
void RankedLists::StepBack(std::uint32_t list, BlockId back) {
  const BlockId first(run_first_[back.value()]);
  const std::uint64_t run = released_at_[back.value()] >> kPlaceBits;
  const bool still_there =
      lists_.Contains(first) && lists_.ListOf(first) == list && released_at_[first.value()] >> kPlaceBits == run;
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
  for (std::uint64_t classes = filled_[group]; classes != 0; classes &= classes - 1) {
    const auto reuse_class = static_cast<std::uint32_t>(std::countr_zero(classes));
    const std::uint32_t list = group * kClasses + reuse_class;
    const auto consider = [&](BlockId leaf) {
      const std::uint64_t time = released_at_[leaf.value()];
      const float density =
          ranking == Ranking::kLastUse ? 0 : model.DensityAt(reuse_class, request - (time >> kPlaceBits));
      if (density < least.density || (density == least.density && time < least.time)) least = {leaf, density, time};
    };
    const std::optional<BlockId> oldest = lists_.FrontLeaf(list);
    if (!oldest) {
      filled_[group] &= ~(std::uint64_t{1} << reuse_class);
      continue;
    }
    consider(*oldest);
    const std::optional<BlockId> newest = newest_[list].first;
    if (ranking == Ranking::kHitDensity && newest && lists_.IsLeaf(*newest)) consider(*newest);
  }
  return least.leaf;
}

}  // namespace roost::worker

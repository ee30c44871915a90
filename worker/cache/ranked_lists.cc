#include "worker/cache/ranked_lists.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace roost::worker {
namespace {

constexpr std::uint32_t kClasses = ReuseModel::kClassCount;
static_assert(kClasses <= 64, "a group's classes are bits of one word");

}  // namespace

RankedLists::RankedLists(std::uint32_t block_count, std::uint32_t group_count)
    : lists_(block_count, group_count * kClasses), released_at_(block_count), filled_(group_count) {}

void RankedLists::PushBack(std::uint32_t group, std::uint32_t reuse_class, BlockId block, ReleaseTime time,
                           TreePlace place) {
  const std::uint32_t list = group * kClasses + reuse_class;
  lists_.PushBack(list, block, place);
  released_at_[block.value()] = time.request << kPlaceBits | std::min(time.place, (1U << kPlaceBits) - 1);
  MarkFilled(list);
}

void RankedLists::BecomeLeaf(BlockId block) {
  lists_.BecomeLeaf(block);
  MarkFilled(lists_.ListOf(block));
}

void RankedLists::MarkFilled(std::uint32_t list) { filled_[list / kClasses] |= std::uint64_t{1} << (list % kClasses); }

std::optional<BlockId> RankedLists::FirstToGo(std::uint32_t group, Ranking ranking, const ReuseModel& model,
                                              std::uint64_t request) {
  std::optional<BlockId> first;
  float least_density = std::numeric_limits<float>::max();
  std::uint64_t least_time = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t classes = filled_[group]; classes != 0; classes &= classes - 1) {
    const auto reuse_class = static_cast<std::uint32_t>(std::countr_zero(classes));
    const std::optional<BlockId> leaf = lists_.FrontLeaf(group * kClasses + reuse_class);
    if (!leaf) {
      filled_[group] &= ~(std::uint64_t{1} << reuse_class);
      continue;
    }
    const std::uint64_t time = released_at_[leaf->value()];
    const float density =
        ranking == Ranking::kLastUse ? 0 : model.DensityAt(reuse_class, request - (time >> kPlaceBits));
    if (density > least_density || (density == least_density && time >= least_time)) continue;
    first = leaf;
    least_density = density;
    least_time = time;
  }
  return first;
}

}  // namespace roost::worker

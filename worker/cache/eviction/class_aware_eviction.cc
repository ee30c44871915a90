#include "worker/cache/eviction/class_aware_eviction.h"

#include <algorithm>

namespace roost::worker {

ClassAwareEviction::ClassAwareEviction(std::uint32_t block_count, std::span<const double> group_shares,
                                       std::optional<std::uint32_t> kept_count)
    : lists_(block_count, static_cast<std::uint32_t>(group_shares.size()) + 1) {
  const auto learn_share = [&](double share) {
    learners_.emplace_back(std::max(1U, static_cast<std::uint32_t>(share * kept_count.value_or(block_count))));
  };
  double rest = 1;
  for (const double share : group_shares) rest -= share;
  learn_share(std::max(0.0, rest));
  for (const double share : group_shares) learn_share(share);
}

void ClassAwareEviction::Insert(BlockId block, const BlockUse& use, TreePlace place) {
  const std::uint32_t group = use.group.value();
  const ClassLearner::Release release = learners_[group].OnRelease(use);
  lists_.PushBack(group, release.reuse_class, block, use.position, release.time, place);
}

void ClassAwareEviction::SetRecomputeCost(RecomputeCost cost) {
  lists_.SetRecomputeCost(cost);
  for (ClassLearner& learner : learners_) learner.SetRecomputeCost(cost);
}

void ClassAwareEviction::BecomeLeaf(BlockId block) { lists_.BecomeLeaf(block); }

void ClassAwareEviction::Erase(BlockId block) { lists_.Erase(block); }

std::optional<BlockId> ClassAwareEviction::Victim(EvictionGroup group) {
  const ClassLearner& learner = learners_[group.value()];
  return lists_.FirstToGo(group.value(), learner.ranking(), learner.model(), learner.now());
}

void ClassAwareEviction::Evict(BlockId block) { lists_.Erase(block); }

}  // namespace roost::worker

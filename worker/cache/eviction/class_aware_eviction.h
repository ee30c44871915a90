// Class-aware eviction: idle blocks are ranked by the hit density of their class at their age, as learned from the
// traffic (see ReuseModel), times the block's RecomputeCost: the time that keeping it is expected to save, by time that
// it is kept. Weighing an eviction by its cost is the idea of GreedyDual-Size (Cao and Irani, Cost-aware WWW proxy
// caching algorithms, USITS 1997) and of GDSF, which multiplies cost and frequency (Cherkasova, Improving WWW proxies
// performance with Greedy-Dual-Size-Frequency caching policy, HP Laboratories 1998). If this ranking saved less time
// than recency would, recency ranks them.
//
//   Insert(block) ─▶ class of the block ─▶ its list            Victim: least value over the heads of the group's lists
//                    (ClassLearner)
//
// All classes are learned; no rule says which are good. Every group learns for itself, so one tenant's traffic does not
// decide what is kept of another's. Switching between the rankings is free, because no list changes.
//
// 48 bytes per block, and less than 1 MiB per group in addition. See EvictionPolicy for which calls are allowed when.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/cache/eviction/class_learner.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/ranked_lists.h"

namespace roost::worker {

class ClassAwareEviction final : public EvictionPolicy {
 public:
  // Groups 1, 2, … have these shares of the pool, group 0 the rest. `kept_count` is the number of blocks that the
  // guards take as the size of the cache; all blocks by default.
  explicit ClassAwareEviction(std::uint32_t block_count, std::span<const double> group_shares = {},
                              std::optional<std::uint32_t> kept_count = std::nullopt);

  void SetRecomputeCost(RecomputeCost cost) override;  // O(groups)
  void Insert(BlockId block, const BlockUse& use, TreePlace place) override;
  void BecomeLeaf(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override;
  void Evict(BlockId block) override;
  void Prefetch(BlockId block) const override { lists_.Prefetch(block); }
  // The group of a new key is unknown, so with several groups nothing is prefetched.
  void PrefetchInsert(std::uint64_t key) const override {
    if (learners_.size() == 1) learners_.front().Prefetch(key);
  }

  // The ranking that a group's guard has chosen.
  [[nodiscard]] Ranking ranking(EvictionGroup group = EvictionGroup(0)) const {
    return learners_[group.value()].ranking();
  }

 private:
  RankedLists lists_;
  std::vector<ClassLearner> learners_;  // by group
};

}  // namespace roost::worker

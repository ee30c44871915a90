// Class-aware eviction: idle blocks are ranked by the hit density of their class at their age, as far as that has been
// learned from the traffic (see ReuseModel), and by recency where ranking so has not paid.
//
//   Insert(block) ─▶ class of the block ─▶ its list                        Victim: least value over the lists' heads
//        │ sampled
//        ├──▶ BlockHistory: seen before, in which class, how long ago ─▶ ReuseModel: density(class, age)
//        └──▶ two ShadowCaches, by recency and by density ─▶ whose hits are more? ─▶ the ranking in use
//
// A class says how often the block's content was used before (also before it was evicted: BlockHistory), how much of
// the request's prompt was not cached, how long the answer was, and whether decoding made the block. Every class is
// learned; none is good or bad by decree.
//
// The guard: the shadows see a sample of the same releases. Where the ranking by density has clearly had fewer
// hits there of late than the one by recency, the real cache goes by recency, which is LRU exactly. To change over
// costs nothing, for no list changes.
//
// 40 bytes per block, and less than 1 MiB besides. See EvictionPolicy for what calls are allowed when.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/cache/block_history.h"
#include "worker/cache/eviction.h"
#include "worker/cache/ranked_lists.h"
#include "worker/cache/reuse_model.h"
#include "worker/cache/shadow_cache.h"

namespace roost::worker {

class ClassAwareEviction final : public EvictionPolicy {
 public:
  // `kept_count` of the blocks is what the guard takes for the size of the cache; all of them if it is not given.
  explicit ClassAwareEviction(std::uint32_t block_count, std::uint32_t group_count = 1,
                              std::optional<std::uint32_t> kept_count = std::nullopt);

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override;
  void BecomeLeaf(BlockId block) override;
  void Erase(BlockId block) override;
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override;
  void Evict(BlockId block) override;
  void Prefetch(BlockId block) const override { lists_.Prefetch(block); }
  void PrefetchInsert(std::uint64_t key) const override {
    if (BlockHistory::Samples(key)) history_.Prefetch(key);
  }

  // The ranking that the guard has chosen.
  [[nodiscard]] Ranking ranking() const { return ranking_; }

 private:
  void BeginRequest(const RequestUse& request);
  std::uint32_t LearnFrom(const BlockUse& use);
  void Compare(const BlockUse& use, std::uint32_t reuse_class);
  void ChooseRanking();

  RankedLists lists_;
  BlockHistory history_;
  ReuseModel model_;

  // The request that lets go of blocks now.
  bool began_ = false;
  ReleaseTime now_;
  std::uint32_t visits_ = 0;  // of its block that came last: those to come are before it in the prefix, used as often

  // The guard.
  std::uint64_t shadow_bound_;  // keys whose hash is not above it are of the shadows' sample
  ShadowCache by_recency_;
  ShadowCache by_density_;
  std::uint32_t uses_ = 0;  // blocks of this request that the shadows were told of
  float lead_ = 0;          // hits that ranking by density had more, fading
  float faded_uses_ = 0;
  Ranking ranking_ = Ranking::kHitDensity;
};

}  // namespace roost::worker

// Learns from the traffic of one group: the class of each block, how soon blocks of each class are used again, and
// whether ranking by that has given more hits than recency.
//
//   release of a block ─▶ its class                  says how often the content was used before (also before it was
//        │ sampled                                   evicted), how much of the request's prompt was not cached, how
//        │                                           long the answer was, and whether decoding made the block
//        ├──▶ BlockHistory: seen before, in which class, how long ago ─▶ ReuseModel: density(class, age)
//        └──▶ two ShadowCaches, by recency and by density ─▶ the one with more hits ─▶ the ranking in use
//
// Time is counted in the group's own requests, so that the traffic of others does not change it.
//
// The guard: two shadow caches see a sample of the same releases, as if the group had exactly its share of the pool. If
// the ranking by density recently had clearly fewer hits there than the ranking by recency, the group is ranked by
// recency, which is exactly LRU.
//
// Not thread-safe. Every operation is O(1). 16 bytes per block of the share, and less than 1 MiB in addition.
#pragma once

#include <cstdint>

#include "worker/cache/block_history.h"
#include "worker/cache/eviction.h"
#include "worker/cache/ranked_lists.h"
#include "worker/cache/reuse_model.h"
#include "worker/cache/shadow_cache.h"

namespace roost::worker {

class ClassLearner {
 public:
  // For a group with a share of `block_count` blocks; at least one.
  explicit ClassLearner(std::uint32_t block_count);

  // A block's place among the group's releases.
  struct Release {
    std::uint32_t reuse_class = 0;
    ReleaseTime time;
  };
  // A request releases a block; its later blocks are released before its earlier ones.
  [[nodiscard]] Release OnRelease(const BlockUse& use);

  void Prefetch(std::uint64_t key) const {
    if (BlockHistory::Samples(key)) history_.Prefetch(key);
  }

  // The ranking that the guard has chosen, and the model behind the ranking by density.
  [[nodiscard]] Ranking ranking() const { return ranking_; }
  [[nodiscard]] const ReuseModel& model() const { return model_; }
  // The group's present time.
  [[nodiscard]] std::uint64_t now() const { return now_.request; }

 private:
  void BeginRequest(std::uint64_t number);
  [[nodiscard]] std::uint32_t LearnFrom(const BlockUse& use);
  void Compare(const BlockUse& use, std::uint32_t reuse_class);
  void ChooseRanking();

  BlockHistory history_;
  ReuseModel model_;

  // The request that is releasing blocks now.
  bool began_ = false;
  std::uint64_t number_ = 0;  // its number
  ReleaseTime now_;
  std::uint32_t visits_ = 0;  // of its last released block; the next ones precede it, so they were used as often

  // The guard.
  std::uint64_t shadow_bound_;  // keys whose hash is not above it are in the shadows' sample
  ShadowCache by_recency_;
  ShadowCache by_density_;
  std::uint32_t uses_ = 0;  // blocks of this request that the shadows have seen
  float lead_ = 0;          // hits by density less hits by recency, fading
  float faded_uses_ = 0;
  Ranking ranking_ = Ranking::kHitDensity;
};

}  // namespace roost::worker

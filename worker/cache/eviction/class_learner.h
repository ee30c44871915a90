// Learns from the traffic of one group: the class of each block, how soon blocks of each class are used again, and
// whether ranking by that has saved more time than recency.
//
//   release of a block ─▶ its class                  says how often the content was used before (also before it was
//        │ sampled                                   evicted), how much of the request's prompt was not cached, how
//        │                                           long the answer was, and whether decoding made the block
//        ├──▶ BlockHistory: seen before, in which class, how long ago ─▶ ReuseModel: density(class, age)
//        └──▶ two ShadowCaches, by recency and by density ─▶ the one that saves more ─▶ the ranking in use
//
// Time is counted in the group's own requests, so that the traffic of others does not change it.
//
// The guard: two shadow caches see a sample of the same releases, as if the group had exactly its share of the pool. If
// the ranking by density recently saved clearly less there than the ranking by recency, the group is ranked by
// recency, which is exactly LRU. A hit saves the block's RecomputeCost.
//
// Not thread-safe. Every operation is O(1). 16 bytes per block of the share, and less than 1 MiB in addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/ranked_lists.h"
#include "worker/cache/eviction/reuse_model.h"
#include "worker/cache/structures/hash_index.h"

namespace roost::worker {

// Remembers blocks by their keys, even after their eviction: when a block was last released, its class, and how many
// requests used it. A policy learns from this about blocks that it evicted.
//
// It remembers a sample of the keys, chosen by their hash: one in kSampleRate. It has two entries per block of the
// pool, so it reaches back over about 2 x kSampleRate pools of blocks. It is a table of buckets; a new entry replaces
// the entry of its bucket that was released longest ago. An entry is identified by its bucket and 24 bits of its key.
// Confusing two keys is rare, and only makes a count wrong.
//
// Not thread-safe. Every operation is O(1). 16 bytes per block of the pool; no allocation after construction.
class BlockHistory {
 public:
  static constexpr std::uint64_t kSampleRate = 4;
  static constexpr std::uint32_t kTimeBits = 24;  // times wrap: ages are correct below 2^24 requests
  static constexpr std::uint32_t kMaxVisits = 255;

  struct Entry {
    std::uint32_t time = 0;  // in requests, modulo 2^kTimeBits
    std::uint8_t reuse_class = 0;
    std::uint8_t visits = 0;  // requests that used it, counted up to kMaxVisits
  };

  explicit BlockHistory(std::uint32_t block_count);

  // Is this key in the sample? Other keys are never found.
  [[nodiscard]] static bool Samples(std::uint64_t key);

  // Prefetches what a later Find or Store reads.
  void Prefetch(std::uint64_t key) const;

  [[nodiscard]] std::optional<Entry> Find(std::uint64_t key) const;

  // Stores the entry of a sampled key.
  void Store(std::uint64_t key, const Entry& entry);

 private:
  static constexpr std::uint32_t kBucketSlots = 4;

  struct Slot {
    std::uint32_t name_and_class = 0;   // 24 bits of the key, 8 of the class
    std::uint32_t time_and_visits = 0;  // 24 bits, 8 bits; no visits: empty
  };

  [[nodiscard]] std::size_t BucketOf(std::uint64_t mixed) const;
  [[nodiscard]] std::size_t SlotToReplace(std::size_t bucket, std::uint32_t name, std::uint32_t time) const;

  std::size_t bucket_count_;
  BigVector<Slot> slots_;
};

// A request releases a block.
struct ShadowUse {
  std::uint64_t key = 0;
  std::uint32_t position = 0;  // in blocks from the root
  std::uint32_t reuse_class = 0;
  ReleaseTime time;
};

// A small cache of keys only, which shows how well a ranking would do. It sees a sample of the real cache's releases,
// has the same share of its blocks, and adds up what the hits that it would have had save (Waldspurger and others,
// Cache modeling and optimization using miniature simulations, USENIX ATC 2017). As in the real cache only leaves are
// evicted. The tree of the sampled blocks is learned from the order in which requests release theirs, back to front:
//
//     request:   a ─ B ─ c ─ d ─ E ─ F     (capitals are sampled)      told of: F, E, B     tree: B ◀─ E ◀─ F
//
// Not thread-safe. Every operation is O(1). About 100 bytes per entry; no allocation after construction.
class ShadowCache {
 public:
  ShadowCache(std::uint32_t entry_count, Ranking ranking);

  void SetRecomputeCost(RecomputeCost cost);

  // A request's later blocks come first.
  void Use(const ShadowUse& use, const ReuseModel& model);

  // All blocks of the request have been seen. Returns the cost of those that were hits: held together with every
  // sampled block before them.
  [[nodiscard]] float EndRequest();

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t position = 0;
    std::optional<BlockId> parent;  // the sampled block before it, once a request has shown it; of a lower position
    std::uint32_t child_count = 0;
  };

  // An entry without a key: a new one, or that of an evicted block.
  [[nodiscard]] BlockId TakeEntry(const ReuseModel& model, std::uint64_t request);
  void Evict(BlockId entry);
  void LinkLatestTo(BlockId parent);

  Ranking ranking_;
  HashIndex index_;
  RankedLists lists_;
  std::vector<Entry> entries_;
  std::optional<BlockId> latest_;  // the request's entry that was used last
  RecomputeCost cost_;
  float saved_ = 0;  // the cost of the request's blocks since the last missing one
};

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

  void SetRecomputeCost(RecomputeCost cost);

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
  RecomputeCost cost_;
  float used_ = 0;  // the cost of this request's blocks that the shadows have seen
  float lead_ = 0;  // saved by density less saved by recency, fading
  float faded_used_ = 0;
  Ranking ranking_ = Ranking::kHitDensity;
};

}  // namespace roost::worker

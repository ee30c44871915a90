// LRU against a plain list, on blocks that are all leaves; the ranking by recency against LRU in the cache itself; and
// the ranking by density and cost against plain lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/support/cache_user.h"
#include "worker/cache/eviction/ranked_lists.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;

constexpr EvictionGroup kGroup(0);

BlockUse NewUse(Rng& rng) {
  BlockUse use;
  use.key = rng.Below(200);
  use.position = static_cast<std::uint32_t>(rng.Below(300));
  return use;
}

// Random events; every victim must be the block that has been idle for the longest time.
void ExpectOldestFirst(EvictionPolicy& policy, std::uint64_t seed, std::uint32_t block_count) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  std::vector<BlockUse> uses(block_count);
  std::vector<std::uint32_t> idle;  // oldest first
  for (std::uint32_t step = 0; step < 4000; ++step) {
    const auto block = static_cast<std::uint32_t>(rng.Below(block_count));
    const auto place = std::find(idle.begin(), idle.end(), block);
    if (place == idle.end()) {
      BlockUse& use = uses[block];
      if (rng.Below(2) == 0) use = NewUse(rng);
      use.request.number = step;
      policy.Insert(BlockId(block), use, TreePlace::kLeaf);
      idle.push_back(block);
    } else if (rng.Below(2) == 0) {
      policy.Erase(BlockId(block));
      idle.erase(place);
      ++uses[block].hit_count;
    } else {
      const std::optional<BlockId> victim = policy.Victim(kGroup);
      ASSERT_TRUE(victim.has_value());
      ASSERT_EQ(victim->value(), idle.front());
      policy.Evict(*victim);
      idle.erase(idle.begin());
      uses[victim->value()] = NewUse(rng);
    }
  }
}

// Ranked lists that rank by the last use, with random classes.
class RankedByLastUse final : public EvictionPolicy {
 public:
  explicit RankedByLastUse(std::uint32_t block_count) : lists_(block_count, 1) {}

  void Insert(BlockId block, const BlockUse& use, TreePlace place) override {
    const auto reuse_class = static_cast<std::uint32_t>(rng_.Below(ReuseModel::kClassCount));
    lists_.PushBack(0, reuse_class, block, use.position, {.request = use.request.number, .place = place_++}, place);
  }
  void BecomeLeaf(BlockId block) override { lists_.BecomeLeaf(block); }
  void Erase(BlockId block) override { lists_.Erase(block); }
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup /*group*/) override {
    return lists_.FirstToGo(0, Ranking::kLastUse, model_, 0);
  }
  void Evict(BlockId block) override { lists_.Erase(block); }

 private:
  RankedLists lists_;
  ReuseModel model_;
  Rng rng_{7};
  std::uint32_t place_ = 0;
};

// One cache and its users. Two caches with the same seed behave the same as long as their policies do.
class SeededCache {
 public:
  SeededCache(std::uint64_t seed, std::unique_ptr<EvictionPolicy> policy)
      : rng_(seed), pool_(kBlockCount), cache_(pool_, {.block_tokens = 4}, std::move(policy)) {}

  static constexpr std::uint32_t kBlockCount = 40;

  void Step() {
    if (users_.size() < 5 && rng_.Below(3) == 0) {
      std::vector<TokenId> tokens;
      for (std::uint64_t i = 1 + rng_.Below(10); i > 0; --i) {
        tokens.insert(tokens.end(), 4, static_cast<TokenId>(rng_.Below(2)));
      }
      users_.emplace_back(BlockHash{1, 1}, std::move(tokens), 4);
      users_.back().Match(cache_);
    } else if (!users_.empty() && rng_.Below(3) == 0) {
      const auto user = users_.begin() + static_cast<std::ptrdiff_t>(rng_.Below(users_.size()));
      user->Release(cache_, {.number = released_++});
      users_.erase(user);
    } else if (!users_.empty()) {
      CacheUser& user = users_[rng_.Below(users_.size())];
      if (user.blocks.size() < user.hashes.size()) (void)user.FillNext(cache_);
    }
  }

  std::vector<BlockHash> TakeEvicted() {
    std::vector<BlockHash> evicted;
    for (const wire::CacheEvent& event : cache_.TakeEvents()) {
      evicted.insert(evicted.end(), event.removed.begin(), event.removed.end());
    }
    return evicted;
  }

 private:
  Rng rng_;
  BlockPool pool_;
  PrefixCache cache_;
  std::vector<CacheUser> users_;
  std::uint64_t released_ = 0;
};

constexpr std::uint32_t kModelClasses = 5;

// Classes that come back at different times.
ReuseModel SomeClasses(Rng& rng) {
  ReuseModel model;
  for (int request = 0; request < 300; ++request) {
    for (std::uint32_t reuse_class = 0; reuse_class < kModelClasses; ++reuse_class) {
      model.CountRelease(reuse_class);
      if (rng.Below(kModelClasses) >= reuse_class) {
        model.CountReuse(reuse_class, static_cast<std::uint32_t>(rng.Below(10 + 20 * reuse_class)));
      }
    }
    model.EndRequest();
  }
  return model;
}

// Blocks by class and depth, each in the order of its release; every request releases one. The least of the first and
// the last of each list goes.
class NaiveRanking {
 public:
  struct Idle {
    std::uint32_t block = 0;
    std::uint32_t position = 0;
    std::uint64_t request = 0;
  };

  void SetGrowth(double growth) { growth_ = growth; }

  void Push(std::uint32_t reuse_class, const Idle& idle) {
    lists_[{reuse_class, DepthOf(idle.position)}].push_back(idle);
  }
  void Erase(std::uint32_t block) {
    for (auto& [key, list] : lists_) {
      list.erase(std::remove_if(list.begin(), list.end(), [&](const Idle& idle) { return idle.block == block; }),
                 list.end());
    }
  }
  [[nodiscard]] std::uint32_t FirstToGo(const ReuseModel& model, std::uint64_t request) const {
    std::pair<double, std::uint64_t> least{1e30, 0};
    std::uint32_t block = 0;
    for (const auto& [key, list] : lists_) {
      if (list.empty()) continue;
      for (const Idle& idle : {list.front(), list.back()}) {
        const double density = model.DensityAt(key.first, request - idle.request);
        const std::pair<double, std::uint64_t> value{density * (1 + growth_ * idle.position), idle.request};
        if (value >= least) continue;
        least = value;
        block = idle.block;
      }
    }
    return block;
  }

 private:
  [[nodiscard]] int DepthOf(std::uint32_t position) const {
    const double cost = 1 + growth_ * position;
    return cost < 2 ? 0 : cost < 4 ? 1 : 2;
  }

  double growth_ = 0;
  std::map<std::pair<std::uint32_t, int>, std::vector<Idle>> lists_;
};

// Random events on both. The growth is a power of two, so that both compute the same values.
void ExpectLeastValueFirst(std::uint64_t seed, const std::vector<double>& growths) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  constexpr std::uint32_t kBlockCount = 40;
  Rng rng(seed);
  const ReuseModel model = SomeClasses(rng);
  RankedLists lists(kBlockCount, 1);
  NaiveRanking naive;
  std::vector<std::uint32_t> idle;
  for (std::uint64_t step = 0; step < 4000; ++step) {
    if (!growths.empty() && rng.Below(100) == 0) {
      const double growth = growths[rng.Below(growths.size())];
      naive.SetGrowth(growth);
      lists.SetRecomputeCost({.growth = static_cast<float>(growth)});
    }
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlockCount));
    const auto place = std::find(idle.begin(), idle.end(), block);
    if (place == idle.end()) {
      const auto reuse_class = static_cast<std::uint32_t>(rng.Below(kModelClasses));
      const auto position = static_cast<std::uint32_t>(rng.Below(300));
      lists.PushBack(0, reuse_class, BlockId(block), position, {.request = step}, TreePlace::kLeaf);
      naive.Push(reuse_class, {block, position, step});
      idle.push_back(block);
      continue;
    }
    std::uint32_t goes = block;
    if (rng.Below(2) == 0) {
      const std::optional<BlockId> victim = lists.FirstToGo(0, Ranking::kHitDensity, model, step);
      ASSERT_TRUE(victim.has_value());
      ASSERT_EQ(victim->value(), naive.FirstToGo(model, step)) << "step " << step;
      goes = victim->value();
    }
    lists.Erase(BlockId(goes));
    naive.Erase(goes);
    idle.erase(std::find(idle.begin(), idle.end(), goes));
  }
}

TEST(EvictionModelTest, TheLeastDensityTimesCostGoesFirst) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectLeastValueFirst(seed, {0, 0.0078125, 0.03125});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(EvictionModelTest, BeforeACostIsKnownTheLeastDensityGoesFirst) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectLeastValueFirst(seed, {});
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(EvictionModelTest, LruEvictsWhatHasBeenIdleForTheLongestTime) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    LruEviction policy(40);
    ExpectOldestFirst(policy, seed, 40);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(EvictionModelTest, RankingByLastUseIsLruWhateverTheClasses) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SeededCache lru(seed, std::make_unique<LruEviction>(SeededCache::kBlockCount));
    SeededCache ranked(seed, std::make_unique<RankedByLastUse>(SeededCache::kBlockCount));
    for (int step = 0; step < 1000; ++step) {
      lru.Step();
      ranked.Step();
      ASSERT_EQ(ranked.TakeEvicted(), lru.TakeEvicted());
    }
  }
}

}  // namespace
}  // namespace roost::worker

#include "worker/cache/eviction/class_aware_eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/cache/eviction/class_learner.h"

namespace roost::worker {
namespace {

TEST(BlockHistoryTest, RemembersTheSampleOnly) {
  BlockHistory history(1000);
  std::uint64_t found = 0;
  for (std::uint64_t key = 0; key < 400; ++key) {
    if (!BlockHistory::Samples(key)) continue;
    history.Store(key, {.time = static_cast<std::uint32_t>(key), .reuse_class = 5, .visits = 2});
    const auto entry = history.Find(key);
    ASSERT_TRUE(entry.has_value());
    EXPECT_EQ(entry->time, key);
    EXPECT_EQ(entry->reuse_class, 5);
    EXPECT_EQ(entry->visits, 2);
    EXPECT_FALSE(history.Find(key + 100'000).has_value());
    ++found;
  }
  EXPECT_NEAR(static_cast<double>(found), 400.0 / BlockHistory::kSampleRate, 40);
}

TEST(BlockHistoryTest, ForgetsTheOldest) {
  BlockHistory history(8);
  std::deque<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < 4000; ++key) {
    if (BlockHistory::Samples(key)) keys.push_back(key);
  }
  for (std::uint32_t i = 0; i < keys.size(); ++i) history.Store(keys[i], {.time = i, .reuse_class = 0, .visits = 1});
  EXPECT_TRUE(history.Find(keys.back()).has_value());
  EXPECT_FALSE(history.Find(keys.front()).has_value());
}

// Class 0 comes back after 10 requests in nine of ten cases, class 1 in one of ten.
TEST(ReuseModelTest, LearnsWhichClassComesBack) {
  ReuseModel model;
  Rng rng(1);
  for (int request = 0; request < 1000; ++request) {
    for (const std::uint32_t reuse_class : {0U, 1U}) {
      model.CountRelease(reuse_class);
      if (request > 10 && rng.Below(10) < (reuse_class == 0 ? 9U : 1U)) model.CountReuse(reuse_class, 10);
    }
    model.EndRequest();
  }
  EXPECT_GT(model.DensityAt(0, 0), 3 * model.DensityAt(1, 0));
  // A block that has not come back by then hardly will.
  EXPECT_LT(model.DensityAt(0, 300), model.DensityAt(1, 0));
  // The closer the time of reuse, the higher the density.
  EXPECT_GT(model.DensityAt(0, 8), model.DensityAt(0, 0));
}

TEST(ReuseModelTest, WithoutCountsAllClassesAreAlike) {
  const ReuseModel model;
  for (std::uint32_t reuse_class = 0; reuse_class < ReuseModel::kClassCount; ++reuse_class) {
    EXPECT_EQ(model.DensityAt(reuse_class, 5), model.DensityAt(0, 5));
  }
}

// Blocks of class 0 come back after 10 requests.
ReuseModel OneClass() {
  ReuseModel model;
  for (int request = 0; request < 500; ++request) {
    model.CountRelease(0);
    if (request >= 10) model.CountReuse(0, 10);
    model.EndRequest();
  }
  return model;
}

TEST(RankedListsTest, WhatWasJustUsedGoesBeforeWhatIsDueSoon) {
  const ReuseModel model = OneClass();
  RankedLists lists(4, 1);
  lists.PushBack(0, 0, BlockId(0), 0, {.request = 0, .place = 0}, TreePlace::kLeaf);
  lists.PushBack(0, 0, BlockId(1), 0, {.request = 8, .place = 0}, TreePlace::kLeaf);
  lists.PushBack(0, 0, BlockId(2), 0, {.request = 8, .place = 1}, TreePlace::kInner);
  EXPECT_EQ(lists.FirstToGo(0, Ranking::kLastUse, model, 9), BlockId(0));
  EXPECT_EQ(lists.FirstToGo(0, Ranking::kHitDensity, model, 9), BlockId(1));
  lists.Erase(BlockId(1));
  EXPECT_EQ(lists.FirstToGo(0, Ranking::kHitDensity, model, 9), BlockId(0));  // the newest block is not a leaf
  lists.BecomeLeaf(BlockId(2));
  EXPECT_EQ(lists.FirstToGo(0, Ranking::kHitDensity, model, 9), BlockId(2));
}

// A block that costs four times as much stays, whichever is the older one; by last use the older one goes.
TEST(RankedListsTest, WhatIsCheapToComputeAgainGoesFirst) {
  const ReuseModel model = OneClass();
  for (const std::uint32_t deep : {0U, 1U}) {
    RankedLists lists(2, 1);
    lists.SetRecomputeCost({.growth = 0.03F});
    for (const std::uint32_t block : {0U, 1U}) {
      lists.PushBack(0, 0, BlockId(block), block == deep ? 100 : 0, {.request = 7 + block}, TreePlace::kLeaf);
    }
    EXPECT_EQ(lists.FirstToGo(0, Ranking::kHitDensity, model, 9), BlockId(1 - deep));
    EXPECT_EQ(lists.FirstToGo(0, Ranking::kLastUse, model, 9), BlockId(0));
  }
}

TEST(ShadowCacheTest, CountsTheHitsOfLruOnSingleBlocks) {
  constexpr std::size_t kEntries = 20;
  ShadowCache shadow(kEntries, Ranking::kLastUse);
  const ReuseModel model;
  Rng rng(3);
  std::deque<std::uint64_t> lru;
  for (std::uint64_t request = 0; request < 3000; ++request) {
    const std::uint64_t key = rng.Below(40);
    const auto held = std::find(lru.begin(), lru.end(), key);
    const float hits = held != lru.end() ? 1 : 0;
    if (held != lru.end()) lru.erase(held);
    lru.push_back(key);
    if (lru.size() > kEntries) lru.pop_front();
    shadow.Use({.key = key, .position = 0, .reuse_class = 0, .time = {.request = request}}, model);
    ASSERT_EQ(shadow.EndRequest(), hits) << request;
  }
}

TEST(ShadowCacheTest, ABlockBehindAMissingOneIsNoHit) {
  ShadowCache shadow(4, Ranking::kLastUse);
  const ReuseModel model;
  const auto use = [&](std::uint64_t key, std::uint32_t position, std::uint64_t request) {
    shadow.Use({.key = key, .position = position, .reuse_class = 0, .time = {.request = request}}, model);
  };
  use(2, 1, 0);  // the block before it was still in use at that time
  EXPECT_EQ(shadow.EndRequest(), 0);
  use(2, 1, 1);
  use(1, 0, 1);  // missing
  EXPECT_EQ(shadow.EndRequest(), 0);
  use(2, 1, 2);
  use(1, 0, 2);
  EXPECT_EQ(shadow.EndRequest(), 2);
  shadow.SetRecomputeCost({.growth = 0.5F});
  use(2, 1, 3);
  use(1, 0, 3);
  EXPECT_EQ(shadow.EndRequest(), 2.5F);
}

// Requests of one block each, for a cache that consists of the policy and a map of held blocks.
class OneBlockRequests {
 public:
  OneBlockRequests(std::unique_ptr<EvictionPolicy> policy, std::uint32_t block_count) : policy_(std::move(policy)) {
    for (std::uint32_t block = 0; block < block_count; ++block) free_.push_back(block);
    held_keys_.resize(block_count);
  }

  // Was it a hit?
  bool Request(std::uint64_t key, std::uint32_t prompt_token_count, std::uint32_t position = 0) {
    const auto held = held_.find(key);
    const bool hit = held != held_.end();
    std::uint32_t block = 0;
    if (hit) {
      block = held->second.block;
      policy_->Erase(BlockId(block));
    } else {
      block = TakeBlock();
      held_keys_[block] = key;
    }
    Held& now_held = held_[key];
    now_held = {block, hit ? now_held.hit_count + 1 : 0};
    policy_->Insert(BlockId(block),
                    {.key = Mix64(key + 1),
                     .position = position,
                     .hit_count = now_held.hit_count,
                     .group = EvictionGroup(0),
                     .request = {.number = number_++, .prompt_token_count = prompt_token_count}},
                    TreePlace::kLeaf);
    return hit;
  }

 private:
  struct Held {
    std::uint32_t block = 0;
    std::uint32_t hit_count = 0;
  };

  std::uint32_t TakeBlock() {
    if (!free_.empty()) {
      const std::uint32_t block = free_.front();
      free_.pop_front();
      return block;
    }
    const BlockId victim = policy_->Victim(EvictionGroup(0)).value();
    policy_->Evict(victim);
    held_.erase(held_keys_[victim.value()]);
    return victim.value();
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::deque<std::uint32_t> free_;
  std::map<std::uint64_t, Held> held_;
  std::vector<std::uint64_t> held_keys_;
  std::uint64_t number_ = 0;
};

// Short prompts come back after a while, long ones never. LRU keeps both for the same time.
template <typename Policy>
double HitsOfTwoClasses(std::uint32_t block_count) {
  OneBlockRequests requests(std::make_unique<Policy>(block_count), block_count);
  std::uint64_t hits = 0;
  std::uint64_t short_prompts = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    if (i % 2 == 0) {
      requests.Request((std::uint64_t{1} << 40U) + i, 60'000);
      continue;
    }
    hits += requests.Request(short_prompts % 150, 500) ? 1 : 0;
    ++short_prompts;
  }
  return static_cast<double>(hits) / static_cast<double>(short_prompts);
}

TEST(ClassAwareEvictionTest, KeepsTheClassThatComesBack) {
  EXPECT_LT(HitsOfTwoClasses<LruEviction>(200), 0.01);
  EXPECT_GT(HitsOfTwoClasses<ClassAwareEviction>(200), 0.9);
}

// Blocks at the beginning and at position 100 come back alike, twice as many as the cache holds. Returns the hits among
// those at the beginning, and among the others.
std::pair<int, int> HitsByDepth(RecomputeCost cost) {
  auto policy = std::make_unique<ClassAwareEviction>(100);
  policy->SetRecomputeCost(cost);
  OneBlockRequests requests(std::move(policy), 100);
  Rng rng(4);
  std::pair<int, int> hits;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t key = rng.Below(200);
    const bool deep = key % 2 == 1;
    (deep ? hits.second : hits.first) += requests.Request(key, 500, deep ? 100 : 0) ? 1 : 0;
  }
  return hits;
}

TEST(ClassAwareEvictionTest, KeepsWhatIsDearToComputeAgain) {
  const auto [early, deep] = HitsByDepth({.growth = 0.03F});
  EXPECT_GT(deep, 3 * early);
}

TEST(ClassAwareEvictionTest, WithoutACostAllDepthsAreAlike) {
  const auto [early, deep] = HitsByDepth({});
  EXPECT_NEAR(early, deep, 0.1 * early);
  EXPECT_GT(early, 2000);
}

// At first long prompts come back, sooner or later, and short ones never. After the turn it is the other way round:
// what was learned is wrong until it has faded, while LRU has nothing to unlearn.
struct AfterTheTurn {
  double hit_ratio = 0;
  std::uint64_t requests_by_recency = 0;
};

template <typename Policy>
AfterTheTurn HitsAfterTheTurn(std::uint32_t block_count) {
  auto policy = std::make_unique<Policy>(block_count);
  const Policy* seen = policy.get();
  OneBlockRequests requests(std::move(policy), block_count);
  Rng rng(5);
  constexpr std::uint64_t kTurn = 4000;
  constexpr std::uint64_t kAfter = 800;
  AfterTheTurn result;
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < kTurn + kAfter; ++i) {
    const bool before = i < kTurn;
    if (i % 2 == 0) {
      requests.Request(1'000'000 + i, before ? 500 : 60'000);
      continue;
    }
    // After the turn each comes back once, 60 requests later.
    const std::uint64_t again = (i / 60) % 2 == 1 ? i - 60 : i;
    const bool hit = requests.Request(before ? rng.Below(40) + i / 400 * 40 : again, before ? 60'000 : 500);
    hits += !before && hit ? 1 : 0;
    if constexpr (std::is_same_v<Policy, ClassAwareEviction>) {
      result.requests_by_recency += !before && seen->ranking() == Ranking::kLastUse ? 1 : 0;
    }
  }
  result.hit_ratio = 2.0 * static_cast<double>(hits) / kAfter;
  return result;
}

TEST(ClassAwareEvictionTest, FallsBackToRecencyWhereWhatWasLearnedIsWrong) {
  const AfterTheTurn lru = HitsAfterTheTurn<LruEviction>(64);
  const AfterTheTurn guarded = HitsAfterTheTurn<ClassAwareEviction>(64);
  EXPECT_GT(guarded.requests_by_recency, 100U);
  EXPECT_GT(guarded.hit_ratio, 0.75 * lru.hit_ratio);  // 0.63 without the guard
}

}  // namespace
}  // namespace roost::worker

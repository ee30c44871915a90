#include "worker/cache/observe/reuse_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "tests/support/sanitized.h"

namespace roost::worker {
namespace {

constexpr std::uint64_t kSeed = 3;

BlockHash Block(std::uint64_t number) { return {0, number}; }

std::vector<BlockHash> Blocks(std::uint64_t first, std::uint64_t count) {
  std::vector<BlockHash> blocks;
  for (std::uint64_t i = 0; i < count; ++i) blocks.push_back(Block(first + i));
  return blocks;
}

// A list that is searched from end to end.
class NaiveStack {
 public:
  void Access(const std::vector<BlockHash>& prompt) {
    for (const BlockHash hash : prompt) {
      const auto found = std::find(stack_.begin(), stack_.end(), hash);
      if (found != stack_.end()) distances_.push_back(static_cast<std::uint32_t>(found - stack_.begin()));
    }
    access_count_ += prompt.size();
    Use(prompt);
  }

  void Use(const std::vector<BlockHash>& blocks) {
    for (auto hash = blocks.rbegin(); hash != blocks.rend(); ++hash) {
      stack_.erase(std::remove(stack_.begin(), stack_.end(), *hash), stack_.end());
      stack_.insert(stack_.begin(), *hash);
    }
  }

  [[nodiscard]] double HitRateAt(std::uint32_t pool_blocks) const {
    const auto hits = std::count_if(distances_.begin(), distances_.end(),
                                    [&](std::uint32_t distance) { return distance < pool_blocks; });
    return static_cast<double>(hits) / static_cast<double>(access_count_);
  }

 private:
  std::vector<BlockHash> stack_;  // used last first
  std::vector<std::uint32_t> distances_;
  std::size_t access_count_ = 0;
};

TEST(ReuseDistanceTest, KnowsNothingBeforeTheFirstAccess) {
  ReuseDistance distance({.largest_pool = 10});
  distance.Use(Blocks(0, 3));
  EXPECT_FALSE(distance.HitRateAt(10).has_value());
}

TEST(ReuseDistanceTest, APromptHitsOncePoolsHoldIt) {
  ReuseDistance distance({.largest_pool = 20});
  distance.Access(Blocks(0, 8));
  distance.Access(Blocks(0, 8));
  EXPECT_EQ(distance.HitRateAt(0), 0.0);
  EXPECT_EQ(distance.HitRateAt(4), 0.25);  // the front of the prompt goes last
  EXPECT_EQ(distance.HitRateAt(8), 0.5);
  EXPECT_EQ(distance.HitRateAt(20), 0.5);
}

TEST(ReuseDistanceTest, IsExactForPoolsWithinTheSamples) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto largest_pool = static_cast<std::uint32_t>(1 + rng.Below(100));
    ReuseDistance distance({.largest_pool = largest_pool, .half_life = 1'000'000});
    NaiveStack naive;
    for (int request = 0; request < 300; ++request) {
      const std::vector<BlockHash> blocks = Blocks(rng.Below(rng.Below(200) + 1), rng.Below(20));
      if (rng.Below(4) == 0) {
        distance.Use(blocks);
        naive.Use(blocks);
      } else {
        distance.Access(blocks);
        naive.Access(blocks);
      }
    }
    for (std::uint32_t pool = 0; pool <= largest_pool; ++pool) {
      ASSERT_NEAR(*distance.HitRateAt(pool), naive.HitRateAt(pool), 1e-9) << pool;
    }
  }
}

// Blocks are used at random, all equally often: a pool's hit rate is its share of the blocks.
TEST(ReuseDistanceTest, EstimatesFromASample) {
  constexpr std::uint32_t kBlocks = 100'000;
  ReuseDistance distance({.largest_pool = kBlocks, .max_samples = 16384, .half_life = 100, .seed = kSeed});
  Rng rng(kSeed);
  for (std::uint32_t i = 0; i < 20 * kBlocks; ++i) {
    const BlockHash block = Block(rng.Below(kBlocks));
    distance.Access({&block, 1});
  }
  for (const std::uint32_t pool : {kBlocks / 8, kBlocks / 4, kBlocks / 2, kBlocks}) {
    // The first access of each block is a miss for every pool.
    const double expected = static_cast<double>(pool) / kBlocks * 19 / 20;
    EXPECT_NEAR(*distance.HitRateAt(pool), expected, 0.03) << pool;
  }
}

// One access in four is to a block that all prompts begin with; it is in the sample for few of the seeds.
TEST(ReuseDistanceTest, ABlockOfAllPromptsShiftsNothingWhetherItIsInTheSampleOrNot) {
  for (std::uint64_t seed = 0; seed < (testing_support::kSanitized ? 8 : 40); ++seed) {
    ReuseDistance distance({.largest_pool = 80'000, .max_samples = 8000, .half_life = 100, .seed = seed});
    for (std::uint64_t request = 0; request < 40'000; ++request) {
      std::vector<BlockHash> prompt = Blocks(1000 + 3 * request, 3);
      prompt.insert(prompt.begin(), Block(1));
      distance.Access(prompt);
    }
    EXPECT_NEAR(*distance.HitRateAt(1000), 0.25, 0.03) << seed;
  }
}

TEST(ReuseDistanceTest, FollowsTheRecentPast) {
  ReuseDistance distance({.largest_pool = 100, .half_life = 4});
  for (int i = 0; i < 100; ++i) distance.Access(Blocks(0, 50));
  EXPECT_NEAR(*distance.HitRateAt(50), 1, 0.01);
  for (std::uint64_t i = 0; i < 100; ++i) distance.Access(Blocks(1000 + 50 * i, 50));
  EXPECT_LT(*distance.HitRateAt(50), 0.01);
}

TEST(ReuseDistanceDeathTest, StopsAtAPoolOverTheLargest) {
  ReuseDistance distance({.largest_pool = 10});
  EXPECT_DEATH((void)distance.HitRateAt(11), "11 blocks");
}

}  // namespace
}  // namespace roost::worker

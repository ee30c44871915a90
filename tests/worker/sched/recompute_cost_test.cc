// How much longer a block takes the more come before it: fitted to steps, and told to the eviction policy.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/rng.h"
#include "worker/cache/prefix_cache.h"
#include "worker/sched/scheduler.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kBlockCount = 64;

class TellsCost final : public EvictionPolicy {
 public:
  explicit TellsCost(std::optional<float>& growth) : growth_(growth) {}

  void SetRecomputeCost(RecomputeCost cost) override { growth_ = cost.growth; }
  void Insert(BlockId block, const BlockUse& use, TreePlace place) override { lru_.Insert(block, use, place); }
  void BecomeLeaf(BlockId block) override { lru_.BecomeLeaf(block); }
  void Erase(BlockId block) override { lru_.Erase(block); }
  [[nodiscard]] std::optional<BlockId> Victim(EvictionGroup group) override { return lru_.Victim(group); }
  void Evict(BlockId block) override { lru_.Evict(block); }

 private:
  std::optional<float>& growth_;
  LruEviction lru_{kBlockCount};
};

class RecomputeCostTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlockTokens = 16;

  std::optional<float> growth_;  // as the policy was told
  BlockPool pool_{kBlockCount};
  PrefixCache cache_{pool_, {.block_tokens = kBlockTokens}, std::make_unique<TellsCost>(growth_)};
  Scheduler scheduler_{cache_, {.max_context_tokens = kBlockCount * kBlockTokens}};
  Rng rng_{1};
  std::uint32_t deepest_ = 60'000;  // tokens before a step's first

  // The steps of an 8B model on an H100, with so much noise: 7 ms, 21 us for a token, `per_token_before` for each token
  // before it, 0.2 ms for a decode.
  void Steps(int count, double per_token_before, double noise = 0, double slowness = 1) {
    for (int i = 0; i < count; ++i) {
      const auto tokens = static_cast<std::uint32_t>(rng_.Below(8) == 0 ? 1 + rng_.Below(200) : 2048);
      const auto first = static_cast<std::uint32_t>(rng_.Below(deepest_));
      const auto decodes = static_cast<std::uint32_t>(rng_.Below(30));
      const std::uint64_t before = TokensBefore(first, tokens);
      const double seconds = 7e-3 + 21e-6 * tokens + per_token_before * static_cast<double>(before) + 0.2e-3 * decodes;
      const double factor = slowness * (1 + noise * (2 * rng_.Uniform() - 1));
      scheduler_.NotePace({tokens, decodes, seconds * factor}, before);
    }
  }
};

constexpr double kPerTokenBefore = 0.93e-9;

TEST(TokensBeforeTest, AddsUpThePositions) {
  for (const std::uint32_t first : {0U, 1U, 70'000U}) {
    for (const std::uint32_t count : {0U, 1U, 2U, 8192U}) {
      std::uint64_t sum = 0;
      for (std::uint32_t position = first; position < first + count; ++position) sum += position;
      EXPECT_EQ(TokensBefore(first, count), sum);
    }
  }
}

TEST_F(RecomputeCostTest, IsNotToldBeforeEnoughStepsWereSeen) {
  Steps(31, kPerTokenBefore);
  EXPECT_FALSE(growth_.has_value());
  scheduler_.NotePace({.decode_tokens = 10, .seconds = 0.01});
  EXPECT_FALSE(growth_.has_value());
  Steps(1, kPerTokenBefore);
  EXPECT_TRUE(growth_.has_value());
}

TEST_F(RecomputeCostTest, GrowsAsTheStepsDo) {
  Steps(40, kPerTokenBefore);
  const double expected = kPerTokenBefore / 21e-6 * kBlockTokens;
  EXPECT_NEAR(growth_.value(), expected, 0.02 * expected);
}

TEST_F(RecomputeCostTest, APromptsTimeGrowsWithWhatIsBeforeItsTokens) {
  EXPECT_EQ(scheduler_.pace().PromptSeconds(0, 1000), 0);
  Steps(40, kPerTokenBefore);
  const auto expected = [](std::uint32_t first, std::uint32_t count) {
    return 21e-6 * count + kPerTokenBefore * static_cast<double>(TokensBefore(first, count));
  };
  for (const std::uint32_t first : {0U, 100'000U}) {
    EXPECT_NEAR(scheduler_.pace().PromptSeconds(first, 1000), expected(first, 1000), 0.02 * expected(first, 1000));
  }
}

TEST_F(RecomputeCostTest, IsAboutRightThoughStepsAreNoisy) {
  Steps(300, kPerTokenBefore, 0.2);
  const double expected = kPerTokenBefore / 21e-6 * kBlockTokens;
  EXPECT_NEAR(growth_.value(), expected, 0.2 * expected);
}

TEST_F(RecomputeCostTest, IsNotMisledByAProcessThatWasPaused) {
  const double expected = kPerTokenBefore / 21e-6 * kBlockTokens;
  Steps(300, kPerTokenBefore);
  scheduler_.NotePace({2048, 0, 60}, TokensBefore(100'000, 2048));
  EXPECT_NEAR(growth_.value(), expected, 0.5 * expected);
  scheduler_.NotePace({2048, 0, 60}, 0);
  EXPECT_NEAR(growth_.value(), expected, 0.5 * expected);
}

TEST_F(RecomputeCostTest, IsLearnedFromLongPromptsAfterShortOnes) {
  const double expected = kPerTokenBefore / 21e-6 * kBlockTokens;
  deepest_ = 1000;
  Steps(1000, kPerTokenBefore, 0.2);
  deepest_ = 200'000;
  Steps(100, kPerTokenBefore, 0.2);
  EXPECT_NEAR(growth_.value(), expected, 0.5 * expected);
}

TEST_F(RecomputeCostTest, StaysOnADeviceThatHasBecomeSlower) {
  Steps(100, kPerTokenBefore);
  Steps(300, kPerTokenBefore, 0.2, 20);
  const double expected = kPerTokenBefore / 21e-6 * kBlockTokens;
  EXPECT_NEAR(growth_.value(), expected, 0.5 * expected);
}

TEST_F(RecomputeCostTest, DoesNotGrowWhereStepsDoNot) {
  Steps(300, 0, 0.2);
  EXPECT_LT(growth_.value(), 0.05 * kPerTokenBefore / 21e-6 * kBlockTokens);
  EXPECT_GE(growth_.value(), 0);
}

}  // namespace
}  // namespace roost::worker

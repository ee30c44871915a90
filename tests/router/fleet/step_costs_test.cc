#include "router/fleet/workers/step_costs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <utility>

namespace roost::router {
namespace {

constexpr double kBase = 0.006;
constexpr double kPerContextToken = 44e-9;
constexpr double kPrefillRate = 40'000;

StepSample Decodes(std::uint32_t requests, std::uint64_t context, double slowness = 1) {
  return {0, requests, slowness * (kBase + kPerContextToken * static_cast<double>(context)), context};
}

StepSample Prefill(std::uint32_t tokens, double slowness = 1) {
  return {tokens, 0, slowness * (kBase + tokens / kPrefillRate), 0};
}

class StepCostsTest : public testing::Test {
 protected:
  void Observe(const StepSample& step, double slowness = 1) {
    now_ += std::chrono::milliseconds(10);
    costs_.Observe(step, slowness, now_);
  }

  StepCosts costs_;
  Instant now_{};
};

TEST_F(StepCostsTest, KnowNothingAtFirst) {
  EXPECT_EQ(costs_.prefill_tokens_per_second(), 0);
  EXPECT_EQ(costs_.decode().base_seconds, 0);
  EXPECT_EQ(costs_.ExpectedSeconds(Decodes(1, 2000)), 0);
  EXPECT_EQ(costs_.ExpectedSeconds(Prefill(100)), 0);
}

// Each worker has one request, of its own length: none of them alone could tell the base from the context.
TEST_F(StepCostsTest, WorkersTellTogetherWhatNoneCouldTellAlone) {
  for (int i = 0; i < 50; ++i) {
    for (const std::uint64_t context : {1000U, 20'000U, 60'000U}) Observe(Decodes(1, context));
  }
  EXPECT_NEAR(costs_.decode().StepSeconds(1, 0), kBase, 0.05 * kBase);
  EXPECT_NEAR(costs_.ExpectedSeconds(Decodes(1, 100'000)), kBase + 100'000 * kPerContextToken, 0.05 * kBase);
}

// As the pieces of a copy: the time of each is mostly the step's own.
TEST_F(StepCostsTest, StepsOfOneLengthTellOnlyWhatTheyTakeInAll) {
  for (int i = 0; i < 50; ++i) Observe(Prefill(64));
  EXPECT_NEAR(costs_.prefill_tokens_per_second(), 64 / Prefill(64).seconds, 1);
  EXPECT_NEAR(costs_.ExpectedSeconds(Prefill(64)), Prefill(64).seconds, 1e-5);
  for (std::uint32_t i = 0; i < 50; ++i) Observe(Prefill(64 + 20 * i));
  EXPECT_NEAR(costs_.prefill_tokens_per_second(), kPrefillRate, 0.05 * kPrefillRate);
  EXPECT_NEAR(costs_.ExpectedSeconds(Prefill(512)), Prefill(512).seconds, 0.05 * kBase);
}

// The depth of a prompt's tokens is not reported, and no noise of theirs reaches the decodes.
TEST_F(StepCostsTest, PromptsThatTakeLongerLeaveDecodesAlone) {
  for (int i = 0; i < 300; ++i) {
    Observe({1024, 1, i % 3 == 0 ? 0.15 : 0.03, static_cast<std::uint64_t>(1000 * (i % 50))});
    Observe(Decodes(1, static_cast<std::uint64_t>(1000 * (i % 50))));
  }
  EXPECT_NEAR(costs_.decode().base_seconds + costs_.decode().per_request_seconds, kBase, 1e-4);
  EXPECT_NEAR(costs_.decode().per_context_token_seconds, kPerContextToken, 1e-9);
}

TEST_F(StepCostsTest, WorkersOfDifferentSpeedsFitTogether) {
  StepPace fast;
  StepPace slow;
  for (std::uint32_t i = 0; i < 400; ++i) {
    for (const auto& [pace, times] : {std::pair(&fast, 1.0), std::pair(&slow, 4.0)}) {
      const StepSample step = Prefill(64 + 20 * (i % 40), times);
      pace->Observe(step.seconds, costs_.ExpectedSeconds(step));
      Observe(step, pace->slowness());
    }
  }
  EXPECT_NEAR(slow.slowness() / fast.slowness(), 4, 0.1);
  EXPECT_NEAR(costs_.ExpectedSeconds(Prefill(512)) * slow.slowness(), Prefill(512, 4).seconds,
              0.02 * Prefill(512, 4).seconds);
  EXPECT_NEAR(costs_.prefill_tokens_per_second() / fast.slowness(), kPrefillRate, 0.05 * kPrefillRate);
}

TEST_F(StepCostsTest, AnOldStepCountsHalf) {
  for (int i = 0; i < 100; ++i) Observe(Decodes(1, 0));
  now_ += StepCosts::kHalfLife;
  for (int i = 0; i < 100; ++i) Observe(Decodes(1, 0, 4));
  EXPECT_NEAR(costs_.ExpectedSeconds(Decodes(1, 0)), (0.5 * kBase + 4 * kBase) / 1.5, 0.02 * kBase);
}

TEST(IsPossibleTest, AStepFitsItsWorkersMemoryAndAnHour) {
  constexpr std::uint64_t kPool = 1000;
  EXPECT_TRUE(IsPossible({1000, 2, 3600, 2000}, kPool, 2));  // two requests that share all blocks
  EXPECT_FALSE(IsPossible({1, 0, 3601, 0}, kPool, 1));
  EXPECT_FALSE(IsPossible({1001, 0, 1, 0}, kPool, 1));
  EXPECT_FALSE(IsPossible({0, 1001, 1, 0}, kPool, 1));
  EXPECT_FALSE(IsPossible({0, 1, 1, ~std::uint64_t{0}}, kPool, 1));
  EXPECT_FALSE(IsPossible({0, 1, 1, 2002}, kPool, 2));
  EXPECT_TRUE(IsPossible({5000, 1, 1, 5000}, 0, 1));  // a pool of unknown size
}

TEST(StepPaceTest, FollowsQuicklyWhatAWorkerTakesMore) {
  StepPace pace;
  EXPECT_EQ(pace.slowness(), 1);
  pace.Observe(0.02, 0.01);
  EXPECT_LT(pace.slowness(), 1.4);  // one step is not enough
  for (int i = 0; i < 100; ++i) pace.Observe(0.02, 0.01);
  EXPECT_GT(pace.slowness(), 1.7);
  for (int i = 0; i < 200; ++i) pace.Observe(0.01, 0.01);
  EXPECT_NEAR(pace.slowness(), 1, 0.05);
}

// The fit has seen long steps only, and takes a short one for far shorter than it is.
TEST(StepPaceTest, AShortFirstStepDoesNotMakeAWorkerSlow) {
  StepPace pace;
  pace.Observe(0.0068, 0.0004);
  EXPECT_LT(pace.slowness(), 1.1);
}

TEST(StepPaceTest, IgnoresWhatIsNoStepOrNotExpected) {
  StepPace pace;
  pace.Observe(0.02, 0);
  pace.Observe(0, 0.01);
  pace.Observe(std::numeric_limits<double>::infinity(), 0.01);
  EXPECT_EQ(pace.slowness(), 1);
}

}  // namespace
}  // namespace roost::router

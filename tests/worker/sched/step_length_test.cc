// The length of a tenant's steps while others may come: it follows the price of shorter steps, in engines of several
// kinds, and the scheduler keeps to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/worker/sched/scheduler_fixture.h"
#include "worker/sched/prompt_majority.h"

namespace roost::worker {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

constexpr std::uint32_t kFull = 512;
constexpr double kToken = 20e-6;  // seconds

using Engine = std::function<double(std::uint32_t)>;  // seconds of a step with so many tokens

// Every step is filled.
void RunSteps(StepLength& length, const Engine& engine, int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::uint32_t tokens = length.Next();
    length.Observe({.prefill_tokens = tokens, .seconds = engine(tokens)});
  }
}

Engine WithFixedTime(double seconds) {
  return [seconds](std::uint32_t tokens) { return seconds + kToken * tokens; };
}

TEST(StepLengthTest, MostStepsHaveTheLengthAndSomeHalfOrTwice) {
  StepLength length(kFull);
  std::vector<std::uint32_t> rooms;
  for (int i = 0; i < 8; ++i) rooms.push_back(length.Next());
  EXPECT_THAT(rooms, ElementsAre(64, 32, 64, 128, 64, 32, 64, 128));
}

TEST(StepLengthTest, FreeShortStepsBecomeAsShortAsTheyMay) {
  StepLength length(kFull);
  RunSteps(length, WithFixedTime(0), 1000);
  EXPECT_EQ(length.length(), kFull / StepLength::kLeastPart);
}

TEST(StepLengthTest, StepsOfAFixedTimeAreFull) {
  StepLength length(kFull);
  RunSteps(
      length, [](std::uint32_t) { return 1.0; }, 1000);
  EXPECT_EQ(length.length(), kFull);
}

TEST(StepLengthTest, AFixedTimeIsAtMostATenthOfAStep) {
  for (const double fixed : {0.05e-3, 0.2e-3, 0.4e-3, 0.8e-3}) {
    StepLength length(kFull);
    RunSteps(length, WithFixedTime(fixed), 5000);
    EXPECT_LE(fixed / (kToken * length.length()), 0.11) << fixed;
    if (length.length() == 64) continue;
    EXPECT_GT(fixed / (kToken * length.length() / 2), 0.1) << fixed;  // and no longer than that takes
  }
}

TEST(StepLengthTest, WhereWeightsAreReadMeanwhileStepsAreAboutThatLong) {
  StepLength length(kFull);
  RunSteps(
      length, [](std::uint32_t tokens) { return kToken * std::max(tokens, 100U); }, 5000);
  EXPECT_EQ(length.length(), 128U);
}

TEST(StepLengthTest, TheLengthFollowsTheEngine) {
  StepLength length(kFull);
  RunSteps(length, WithFixedTime(1e-3), 5000);
  EXPECT_EQ(length.length(), kFull);
  RunSteps(length, WithFixedTime(0), 5000);
  EXPECT_EQ(length.length(), kFull / StepLength::kLeastPart);
}

TEST(StepLengthTest, ASlowStepAmongManyChangesNothing) {
  StepLength length(kFull);
  int step = 0;
  const Engine engine = [&step](std::uint32_t tokens) {
    return (++step % 1000 == 501 ? 4 : 1) * kToken * std::max(tokens, 50U);
  };
  RunSteps(length, engine, 300);
  for (int i = 0; i < 100; ++i) {
    RunSteps(length, engine, 100);
    EXPECT_EQ(length.length(), 64U) << "after " << step;
  }
}

TEST(StepLengthTest, StepsWithDecodesAndThoseNotFilledDoNotCount) {
  StepLength length(kFull);
  for (int i = 0; i < 1000; ++i) {
    length.Observe({.prefill_tokens = length.Next(), .decode_tokens = 1, .seconds = 1});
    length.Observe({.prefill_tokens = length.Next() - 1, .seconds = 1});
  }
  EXPECT_EQ(length.length(), kFull / StepLength::kFirstPart);
}

TEST(StepLengthTest, TheSmallestStepsHaveAToken) {
  StepLength length(1);
  RunSteps(length, WithFixedTime(1), 100);
  EXPECT_EQ(length.length(), 1U);
  EXPECT_EQ(length.Next(), 1U);
}

class ShortenedTest : public SchedulerTest {
 protected:
  void SetUp() override { Make({.block_count = 2048}); }

  SequenceId SubmitOf(std::string_view tenant, std::vector<TokenId> prompt) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .tenant = tenant});
  }
  // A tenant without pause, with the prompt tokens of each step until `prompt` is computed.
  std::vector<std::uint32_t> StepsOf(std::string_view tenant, std::vector<TokenId> prompt) {
    const SequenceId id = SubmitOf(tenant, std::move(prompt));
    std::vector<std::uint32_t> tokens;
    while (scheduler_->Get(id).remaining_count() > 0) tokens.push_back(Compute(std::chrono::milliseconds(1)).at(id));
    scheduler_->Remove(id);
    return tokens;
  }
  void Flood() {
    for (TokenId stream = 100; stream < 110; ++stream) (void)StepsOf("greedy", Text(500, stream));
  }
  // Another tenant comes and goes while the greedy one is here.
  void Visit(TokenId stream) {
    const SequenceId greedy = SubmitOf("greedy", Text(4, stream + 1));
    const SequenceId client = SubmitOf("client", Text(4, stream));
    for (int i = 0; i < 10; ++i) (void)Step();
    scheduler_->Remove(client);
    scheduler_->Remove(greedy);
  }
  void Pass(Duration time) { scheduler_->AdvanceTo(now_ += time); }

 private:
  Instant now_;
};

TEST_F(ShortenedTest, AloneItHasFullSteps) {
  Flood();
  EXPECT_THAT(StepsOf("greedy", Text(1000, 2)), ElementsAre(512, 488));
}

TEST_F(ShortenedTest, AfterAVisitOfOthersItsStepsAreShort) {
  Flood();
  Visit(1);
  EXPECT_THAT(StepsOf("greedy", Text(400, 3)), AllOf(Each(Le(128U)), Each(Ge(1U))));
}

TEST_F(ShortenedTest, TheyStayShortForHalfAMinute) {
  Flood();
  Visit(1);
  Pass(std::chrono::seconds(29));
  EXPECT_LE(StepsOf("greedy", Text(400, 3)).front(), 128U);
  Pass(std::chrono::seconds(2));
  EXPECT_THAT(StepsOf("greedy", Text(400, 4)), ElementsAre(400));
}

}  // namespace
}  // namespace roost::worker

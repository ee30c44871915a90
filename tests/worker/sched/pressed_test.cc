// Prompts that would miss the target of a first token get the part of each step that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::Pair;

// A prompt of 4,000 tokens, and one of 1,000 every second; a step computes 1,000 tokens and takes a second.
class PressedTest : public SchedulerTest {
 protected:
  void MakeWithTarget(std::optional<Duration> target, std::uint32_t block_count = 8192,
                      std::uint32_t short_step_tokens = 0) {
    Make({.block_count = block_count,
          .max_batch_tokens = 1000,
          .short_step_tokens = short_step_tokens,
          .policy = SchedulePolicy::kShortestUncached,
          .first_token_target = target});
    Submit(Text(1000, 1));
    Compute(kStep);  // the pace is known from here on
    long_one_ = Submit(Text(4000, 2));
  }

  // Computes for this many seconds. Returns the tokens of the long prompt computed in each.
  std::vector<std::uint32_t> ComputeFor(int seconds) {
    std::vector<std::uint32_t> computed;
    for (; seconds > 0; --seconds) {
      Submit(Text(1000, stream_++));
      computed.push_back(Compute(kStep)[long_one_]);
      scheduler_->AdvanceTo(now_ += kStep);
    }
    return computed;
  }

  static constexpr Duration kStep = std::chrono::seconds(1);
  SequenceId long_one_;
  Instant now_;
  TokenId stream_ = 3;
};

TEST_F(PressedTest, WithoutATargetALongPromptWaits) {
  MakeWithTarget(std::nullopt);
  EXPECT_THAT(ComputeFor(10), testing::Each(0U));
}

// Half of the budget is needed when eight seconds are left for four seconds of computing.
TEST_F(PressedTest, WhoWouldComeTooLateGetsThePartOfTheBudgetThatItNeeds) {
  MakeWithTarget(14 * kStep);
  EXPECT_THAT(ComputeFor(6), testing::Each(0U));
  EXPECT_THAT(ComputeFor(6), testing::Each(500U));  // then the rest is as short as the others
  ComputeFor(2);
  EXPECT_EQ(scheduler_->Get(long_one_).computed_token_count, 4000U);
}

TEST_F(PressedTest, StepsAreFullWhereTimePresses) {
  MakeWithTarget(14 * kStep, 8192, 100);
  EXPECT_THAT(ComputeFor(6), testing::Each(0U));
  const SequenceId short_one = Submit(Text(100, 98));
  const SequenceId other = Submit(Text(400, 99));
  EXPECT_THAT(Compute(kStep), ElementsAre(Pair(long_one_, 500), Pair(short_one, 100), Pair(other, 400)));
}

TEST_F(PressedTest, SomethingIsLeftToTheOthers) {
  MakeWithTarget(2 * kStep);  // can not be met
  EXPECT_THAT(ComputeFor(5), ElementsAre(800, 800, 800, 800, 800));
}

TEST_F(PressedTest, WhoCameFirstIsServedFirst) {
  MakeWithTarget(10 * kStep);
  const SequenceId second = Submit(Text(4000, 99));  // both together need eight of ten seconds
  ComputeFor(5);
  EXPECT_EQ(scheduler_->Get(long_one_).computed_token_count, 4000U);
  EXPECT_EQ(scheduler_->Get(second).computed_token_count, 0U);
}

TEST_F(PressedTest, WhileThereIsNoRoomForItNobodyElseTakesIt) {
  MakeWithTarget(2 * kStep, 1024);
  Compute(kStep);  // the long one has begun; the first one still holds its blocks
  const SequenceId another = Submit(Text(2000, 98));
  scheduler_->AdvanceTo(now_ += 2 * kStep);
  const SequenceId small = Submit(Text(4, 97));
  Compute(kStep);
  EXPECT_EQ(scheduler_->Get(another).state, Sequence::State::kWaiting);
  EXPECT_EQ(scheduler_->Get(small).state, Sequence::State::kWaiting);
}

}  // namespace
}  // namespace roost::worker

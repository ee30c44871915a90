// Waiting for blocks that another sequence computes: who waits, for how long, and what happens when that one goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::Pair;

class InFlightTest : public SchedulerTest {
 protected:
  // Two sequences of 17 tokens of one text; the second waits for the first. After the first step, decoding sequences
  // shrink the budget from ten tokens to three. Returns those sequences.
  std::vector<SequenceId> SlowDownTheFirst(SequenceId& first, SequenceId& second) {
    Make({.max_batch_tokens = 10});
    std::vector<SequenceId> decoding{Submit(SequenceSpec{.root = kRoot, .prompt = Text(3, 9), .fork_count = 6})};
    first = Submit(Text(17, 1));
    EXPECT_THAT(Compute(), ElementsAre(Pair(decoding[0], 3), Pair(first, 7)));
    while (decoding.size() < 7) decoding.push_back(scheduler_->Fork(decoding[0]));
    for (const SequenceId id : decoding) scheduler_->Append(id, 7);
    second = Submit(Text(17, 1));
    return decoding;
  }
};

TEST_F(InFlightTest, WhoHasWaitedAsLongAsComputingTakesComputesItself) {
  SequenceId first;
  SequenceId second;
  const auto decoding = SlowDownTheFirst(first, second);
  Steps(2);  // twelve tokens, in two steps of ten
  EXPECT_TRUE(Waits(second));
  for (std::size_t i = 2; i < decoding.size(); ++i) scheduler_->Remove(decoding[i]);
  EXPECT_EQ(Step().at(second), 4U);
  EXPECT_EQ(scheduler_->Get(second).cached_token_count, 12U);
  EXPECT_EQ(Computed(MissReason::kInFlight), 4U);
}

// Other prompts pause the first one. The number of steps that the second one would need passes quickly, but not the
// time.
TEST_F(InFlightTest, WhoWaitsDoesSoForAsLongAsComputingIsPredictedToTake) {
  Make({.max_batch_tokens = 10, .policy = SchedulePolicy::kShortestUncached});
  Submit(Text(41, 1));
  Compute(std::chrono::seconds(1));  // a tenth of a second per token
  // Eight blocks are missing: 3.2 seconds.
  const SequenceId second = Submit(SequenceSpec{.root = kRoot, .prompt = Text(41, 1), .priority = 60});
  Instant now;
  for (TokenId stream = 2; stream < 8; ++stream) {
    Submit(SequenceSpec{.root = kRoot, .prompt = Text(10, stream), .priority = 90});
    Compute();
    scheduler_->AdvanceTo(now += std::chrono::milliseconds(500));
  }
  Compute();
  EXPECT_TRUE(Waits(second));
  scheduler_->AdvanceTo(now += std::chrono::milliseconds(300));
  Compute();
  EXPECT_FALSE(Waits(second));
}

TEST_F(InFlightTest, WhatTwoComputeAtOnceIsMerged) {
  SequenceId first;
  SequenceId second;
  const auto decoding = SlowDownTheFirst(first, second);
  Steps(2);
  for (std::size_t i = 2; i < decoding.size(); ++i) scheduler_->Remove(decoding[i]);
  Step();
  EXPECT_EQ(BlocksOf(second), std::vector<BlockId>(BlocksOf(first).begin(), BlocksOf(first).begin() + 4));
  EXPECT_EQ(pool_->references(BlocksOf(first)[3]), 2U);
}

TEST_F(InFlightTest, WhoseTimeHasNotComeWaitsAlthoughThereIsBudget) {
  SequenceId first;
  SequenceId second;
  const auto decoding = SlowDownTheFirst(first, second);
  Step();
  for (std::size_t i = 2; i < decoding.size(); ++i) scheduler_->Remove(decoding[i]);
  EXPECT_EQ(Step().at(first), 7U);  // of the eight that are left
  EXPECT_TRUE(Waits(second));
  EXPECT_EQ(Step().at(second), 1U);
  EXPECT_EQ(Computed(MissReason::kInFlight), 0U);
}

// The second one lacks space to run for long after the first has computed what they share. That is not giving up: it
// waits again for what a third one computes of the rest.
TEST_F(InFlightTest, WhoHadNoPlaceToRunHasNotGivenUp) {
  Make({.max_batch_tokens = 8, .max_running = 2});
  const SequenceId occupant = Submit(Text(2, 9));
  Step();
  const SequenceId first = Submit(Join(Text(16, 1), Text(4, 2)));
  Step();
  const auto longer = Join(Text(16, 1), Text(17, 3));
  const SequenceId second = Submit(longer);
  Steps(10);
  scheduler_->Remove(first);
  const SequenceId third = Submit(SequenceSpec{.root = kRoot, .prompt = longer, .priority = 90});
  EXPECT_THAT(Step(), ElementsAre(Pair(occupant, 1), Pair(third, 7)));
  EXPECT_THAT(Step(), ElementsAre(Pair(occupant, 1), Pair(third, 7)));
  scheduler_->Remove(occupant);
  EXPECT_THAT(Step(), ElementsAre(Pair(third, 3)));
  EXPECT_THAT(Step(), ElementsAre(Pair(second, 1), Pair(third, 1)));
}

TEST_F(InFlightTest, WhenTheComputingOneIsPreemptedItGoesFirstAndTheOtherHits) {
  Make({.block_count = 12, .max_batch_tokens = 5});
  const SequenceId growing = Submit(Text(3, 9));
  Step();
  const SequenceId first = Submit(Text(39, 1));
  Step();
  const SequenceId second = Submit(Text(39, 1));
  while (scheduler_->counters().preemptions == 0) Step();
  EXPECT_TRUE(Waits(first));
  scheduler_->Remove(growing);
  Step();
  EXPECT_FALSE(Waits(first));
  EXPECT_TRUE(Waits(second));
  while (scheduler_->Get(first).computed_token_count < 36) Step();
  scheduler_->Remove(first);
  Step();
  EXPECT_GE(scheduler_->Get(second).cached_token_count, 36U);
}

TEST_F(InFlightTest, WhoWaitsForOneThatIsRemovedWhileItWaitsItselfComputesItself) {
  Make({.block_count = 12, .max_batch_tokens = 5});
  const SequenceId growing = Submit(Text(3, 9));
  Step();
  const SequenceId first = Submit(Text(39, 1));
  Step();
  const SequenceId second = Submit(Text(39, 1));
  while (scheduler_->counters().preemptions == 0) Step();
  scheduler_->Remove(first);
  scheduler_->Remove(growing);
  EXPECT_THAT(Step(), ElementsAre(Pair(second, 5)));
}

}  // namespace
}  // namespace roost::worker

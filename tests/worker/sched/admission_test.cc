// How waiting sequences are served: the order, blocks that others compute, and rows of partial blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class AdmissionTest : public SchedulerTest {
 protected:
  SequenceId SubmitUncached(std::vector<TokenId> prompt) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .cache_mode = wire::CacheMode::kOff});
  }

  [[nodiscard]] bool Waits(SequenceId id) const { return scheduler_->Get(id).state == Sequence::State::kWaiting; }

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

// ---- the order ----

TEST_F(AdmissionTest, TheFewestTokensToComputeComeFirst) {
  Make({.max_batch_tokens = 10, .policy = SchedulePolicy::kShortestUncached});
  CommitElsewhere(Text(40, 1));
  const SequenceId long_one = Submit(Text(30, 2));
  const SequenceId short_one = Submit(Text(6, 3));
  const SequenceId cached = Submit(Text(42, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(long_one, 2), Pair(short_one, 6), Pair(cached, 2)));
}

TEST_F(AdmissionTest, TheLongestCachedPrefixComesFirst) {
  Make({.max_batch_tokens = 20, .policy = SchedulePolicy::kLongestPrefix});
  CommitElsewhere(Text(20, 1));
  CommitElsewhere(Text(40, 2));
  const SequenceId none = Submit(Text(6, 3));
  const SequenceId some = Submit(Text(22, 1));
  const SequenceId most = Submit(Text(57, 2));
  EXPECT_THAT(Step(), ElementsAre(Pair(none, 1), Pair(some, 2), Pair(most, 17)));
}

TEST_F(AdmissionTest, WhoseAwaitedPrefixIsGivenUpIsNotTakenAsShort) {
  Make({.max_batch_tokens = 8, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId first = Submit(Text(40, 1));
  Step();
  const SequenceId second = Submit(Text(33, 1));  // one token will be left when the first has continued
  const SequenceId other = Submit(Text(6, 5));
  scheduler_->Remove(first);
  EXPECT_THAT(Step(), ElementsAre(Pair(second, 2), Pair(other, 6)));
}

// ---- prompts that are partly computed ----

TEST_F(AdmissionTest, AShortPromptGoesBeforeTheRestOfALongOne) {
  Make({.max_batch_tokens = 10, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId long_one = Submit(Text(40, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, 10)));
  const SequenceId short_one = Submit(Text(10, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(short_one, 10)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, 10)));
}

TEST_F(AdmissionTest, TheRestOfAPromptCountsNotItsWhole) {
  Make({.max_batch_tokens = 10, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId begun = Submit(Text(25, 1));
  Compute();
  const SequenceId other = Submit(Text(20, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(begun, 10)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(begun, 5), Pair(other, 5)));
}

TEST_F(AdmissionTest, AHigherPriorityPausesALowerOne) {
  Make({.max_batch_tokens = 10});
  const SequenceId low = Submit(Text(40, 1));
  Compute();
  const SequenceId equal = Submit(Text(10, 2));
  const SequenceId high = Submit(SequenceSpec{.root = kRoot, .prompt = Text(14, 3), .priority = 90});
  EXPECT_THAT(Compute(), ElementsAre(Pair(high, 10)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(low, 6), Pair(high, 4)));
  EXPECT_TRUE(Waits(equal));
}

TEST_F(AdmissionTest, NoMorePromptsAreBegunThanMayBeComputedInPart) {
  Make({.max_batch_tokens = 10, .max_partial_prefills = 1, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId begun = Submit(Text(40, 1));
  Compute();
  const SequenceId two_steps = Submit(Text(12, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(begun, 10)));
  EXPECT_TRUE(Waits(two_steps));
  const SequenceId one_step = Submit(Text(9, 3));
  EXPECT_THAT(Compute(), ElementsAre(Pair(begun, 1), Pair(one_step, 9)));
}

TEST_F(AdmissionTest, APausedPromptKeepsTheRoomForItsRest) {
  Make({.block_count = 12, .max_batch_tokens = 8, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId paused = Submit(Text(36, 1));  // takes nine blocks
  Compute();
  const SequenceId fits = Submit(Text(8, 2));  // takes three blocks, with the one for the next token
  EXPECT_THAT(Compute(), ElementsAre(Pair(fits, 8)));
  const SequenceId does_not = Submit(Text(4, 3));
  EXPECT_THAT(Compute(), ElementsAre(Pair(paused, 8)));
  EXPECT_TRUE(Waits(does_not));
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

// ---- short steps ----

TEST_F(AdmissionTest, AStepThatCompletesAPromptIsShort) {
  Make({.max_batch_tokens = 10, .short_step_tokens = 6, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId long_one = Submit(Text(40, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, 10)));
  const SequenceId short_one = Submit(Text(4, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, 2), Pair(short_one, 4)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, 10)));
}

TEST_F(AdmissionTest, APromptThatIsLongerThanAShortStepIsNotCutForIt) {
  Make({.max_batch_tokens = 10, .short_step_tokens = 6, .policy = SchedulePolicy::kShortestUncached});
  Submit(Text(40, 1));
  Compute();
  const SequenceId longer = Submit(Text(7, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(longer, 7)));
}

TEST_F(AdmissionTest, WhoIsAdmittedDoesNotHangOnTheLengthOfTheStep) {
  Make({.max_batch_tokens = 20, .short_step_tokens = 6, .policy = SchedulePolicy::kShortestUncached});
  const SequenceId first = Submit(Text(4, 1));
  const SequenceId second = Submit(Text(5, 2));
  const SequenceId third = Submit(Text(6, 3));
  const SequenceId fourth = Submit(Text(7, 4));
  EXPECT_THAT(Compute(), ElementsAre(Pair(first, 4), Pair(second, 2)));
  for (const SequenceId id : {second, third, fourth}) EXPECT_FALSE(Waits(id));
  EXPECT_THAT(Compute(), ElementsAre(Pair(second, 3), Pair(third, 3)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(third, 3), Pair(fourth, 3)));
}

// One second per token. A full step delays the first token by up to ten seconds. A short step delays the waiting
// prompt, which counts as ten, by the fixed time of one more step: 0.9 seconds, or 1.1.
TEST_F(AdmissionTest, AStepIsFullWhereOneMoreWouldCostMore) {
  for (const bool is_costly : {false, true}) {
    Make({.max_batch_tokens = 10, .short_step_tokens = 6, .policy = SchedulePolicy::kShortestUncached});
    for (std::uint32_t tokens = 1; tokens <= 10; ++tokens) {
      scheduler_->NotePace({.prefill_tokens = tokens, .seconds = (is_costly ? 1.1 : 0.9) + tokens});
    }
    const SequenceId long_one = Submit(Text(40, 1));
    Compute();
    const SequenceId short_one = Submit(Text(4, 2));
    EXPECT_THAT(Compute(), ElementsAre(Pair(long_one, is_costly ? 6 : 2), Pair(short_one, 4)));
  }
}

// ---- sequences that would miss the target ----

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

// ---- blocks that others compute ----

TEST_F(AdmissionTest, WhoHasWaitedAsLongAsComputingTakesComputesItself) {
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
TEST_F(AdmissionTest, WhoWaitsDoesSoForAsLongAsComputingIsPredictedToTake) {
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

TEST_F(AdmissionTest, WhatTwoComputeAtOnceIsMerged) {
  SequenceId first;
  SequenceId second;
  const auto decoding = SlowDownTheFirst(first, second);
  Steps(2);
  for (std::size_t i = 2; i < decoding.size(); ++i) scheduler_->Remove(decoding[i]);
  Step();
  EXPECT_EQ(BlocksOf(second), std::vector<BlockId>(BlocksOf(first).begin(), BlocksOf(first).begin() + 4));
  EXPECT_EQ(pool_->references(BlocksOf(first)[3]), 2U);
}

TEST_F(AdmissionTest, WhoseTimeHasNotComeWaitsAlthoughThereIsBudget) {
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
TEST_F(AdmissionTest, WhoHadNoPlaceToRunHasNotGivenUp) {
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

TEST_F(AdmissionTest, WhenTheComputingOneIsPreemptedItGoesFirstAndTheOtherHits) {
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

TEST_F(AdmissionTest, WhoWaitsForOneThatIsRemovedWhileItWaitsItselfComputesItself) {
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

// ---- preemption ----

TEST_F(AdmissionTest, AResumedSequenceComputesWhatWasEvictedAndOneToken) {
  Make({.block_count = 9});
  CommitElsewhere(Text(4, 8));
  const SequenceId first = Submit(Text(11, 1));
  const SequenceId second = Submit(Text(11, 2));
  while (scheduler_->counters().preemptions == 0) Step();
  ASSERT_TRUE(Waits(second));
  const Sequence& resumed = scheduler_->Get(second);
  scheduler_->Remove(first);
  const std::uint32_t cached_blocks = 4;  // of five; the first sequence took the last one
  EXPECT_EQ(resumed.token_count(), cached_blocks * kBlockTokens + 1);
  EXPECT_THAT(Step(), ElementsAre(Pair(second, 1)));
  EXPECT_EQ(resumed.cached_token_count, 0U);
}

// ---- blocks kept for waiting sequences ----

class WantedTest : public AdmissionTest {
 protected:
  // Two cached texts, the wanted one idle for longer, and a running sequence that takes all other blocks.
  void SetUp() override {
    Make({.block_count = 12, .max_running = 1});
    CommitElsewhere(wanted_text_);
    CommitElsewhere(other_text_);
    running_ = Submit(Text(15, 9));
    Step();
  }

  const std::vector<TokenId> wanted_text_ = Text(16, 1);
  const std::vector<TokenId> other_text_ = Text(16, 2);
  SequenceId running_;
};

TEST_F(WantedTest, TheBlocksThatAWaitingSequenceWillHitAreEvictedLast) {
  (void)Submit(Text(18, 1));
  Steps(16);
  EXPECT_TRUE(IsCached(wanted_text_));
  EXPECT_FALSE(IsCached(Text(4, 2)));
}

TEST_F(WantedTest, TheyAreEvictedWhenThereIsNothingElse) {
  (void)Submit(Text(18, 1));
  Steps(20);
  EXPECT_FALSE(IsCached(wanted_text_));
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

TEST_F(WantedTest, WhenTheWaitingOneIsCancelledTheyAreAsRecentAsThen) {
  const SequenceId waiting = Submit(Text(18, 1));
  scheduler_->Remove(waiting);
  CommitElsewhere(other_text_);
  Steps(16);
  EXPECT_FALSE(IsCached(Text(4, 1)));
  EXPECT_TRUE(IsCached(other_text_));
}

TEST_F(WantedTest, WhenItIsAdmittedNothingIsWantedAnyMore) {
  const SequenceId waiting = Submit(Text(18, 1));
  scheduler_->Remove(running_);
  Step();
  scheduler_->Remove(waiting);
  CommitElsewhere(other_text_);
  CommitElsewhere(Text(32, 7));
  EXPECT_FALSE(IsCached(Text(4, 1)));
}

// ---- rows of partial blocks ----

TEST_F(AdmissionTest, TheEqualRowsOfABlockAreCopied) {
  const BlockId cached = CommitElsewhere(Text(12, 1))[1];
  const SequenceId id = Submit(Join(Text(6, 1), Text(5, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 5)));
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  EXPECT_EQ(scheduler_->copies()[0].from, cached);
  EXPECT_EQ(scheduler_->copies()[0].to, BlocksOf(id)[1]);
  EXPECT_EQ(scheduler_->copies()[0].row_count, 2U);
  EXPECT_EQ(scheduler_->counters().tail_cached_tokens, 2U);
}

TEST_F(AdmissionTest, OfAFullyCachedPromptAllRowsButTheLastAreCopied) {
  CommitElsewhere(Text(12, 1));
  const SequenceId id = Submit(Text(12, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 1)));
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  EXPECT_EQ(scheduler_->copies()[0].row_count, 3U);
  EXPECT_EQ(scheduler_->Get(id).cached_token_count, 11U);
}

TEST_F(AdmissionTest, WhatASequenceLeftOfItsLastBlockIsCopied) {
  const SequenceId before = Submit(Text(10, 1));
  Step();
  const BlockId partial = BlocksOf(before)[2];
  scheduler_->Remove(before);
  const SequenceId id = Submit(Text(14, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 4)));
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  EXPECT_EQ(scheduler_->copies()[0].from, partial);
  EXPECT_EQ(scheduler_->copies()[0].row_count, 2U);
}

TEST_F(AdmissionTest, NothingIsCopiedWhenThePoolHasNoRoomForBothBlocks) {
  Make({.block_count = 4});
  CommitElsewhere(Text(16, 1));
  const SequenceId id = Submit(Join(Text(14, 1), Text(1, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 3)));
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
}

TEST_F(AdmissionTest, WithOneMoreBlockTheRowsAreCopied) {
  Make({.block_count = 5});
  CommitElsewhere(Text(16, 1));
  const SequenceId id = Submit(Join(Text(14, 1), Text(1, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 1)));
  EXPECT_EQ(scheduler_->copies().size(), 1U);
}

// ---- without the cache ----

TEST_F(AdmissionTest, AnUncachedSequenceTakesNothingFromTheCache) {
  CommitElsewhere(Text(12, 1));
  const SequenceId id = SubmitUncached(Text(12, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 12)));
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
  EXPECT_EQ(Computed(MissReason::kDisabled), 12U);
}

TEST_F(AdmissionTest, AnUncachedSequenceLeavesNothing) {
  const SequenceId id = SubmitUncached(Text(12, 1));
  Steps(7);
  scheduler_->Remove(id);
  CheckInvariants();
  EXPECT_EQ(cache_->ready_count(), 0U);
  EXPECT_EQ(pool_->free_count(), 64U);
}

TEST_F(AdmissionTest, NobodyWaitsForAnUncachedSequence) {
  Make({.max_batch_tokens = 20});
  const SequenceId uncached = SubmitUncached(Text(12, 1));
  const SequenceId cached = Submit(Text(12, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(uncached, 12), Pair(cached, 8)));
}

}  // namespace
}  // namespace roost::worker

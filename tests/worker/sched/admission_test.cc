// The service of waiting sequences: the order, prompts that are partly computed, and the length of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::Pair;

class AdmissionTest : public SchedulerTest {};

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

}  // namespace
}  // namespace roost::worker

// Prompts whose log probabilities are wanted: computed completely, few tokens at a time, without blocking others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::Pair;

class ScoredPromptTest : public SchedulerTest {
 protected:
  SequenceId SubmitScored(std::vector<TokenId> prompt) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .scores_prompt = true});
  }
};

TEST_F(ScoredPromptTest, AStepScoresFewTokensAndOthersHaveTheRest) {
  Make({.block_count = 256});
  const SequenceId scored = SubmitScored(Text(100, 1));
  const SequenceId other = Submit(Text(200, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(scored, 64), Pair(other, 200)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(scored, 36)));
}

TEST_F(ScoredPromptTest, TwoShareWhatAStepScores) {
  const SequenceId first = SubmitScored(Text(80, 1));
  const SequenceId second = SubmitScored(Text(80, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(first, 64)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(first, 16), Pair(second, 48)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(second, 32)));
}

TEST_F(ScoredPromptTest, TheSlicesSayWhatIsScored) {
  (void)SubmitScored(Text(70, 1));
  const std::vector<ScheduledSlice>& first = scheduler_->Schedule();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].first_scored, 0U);
  EXPECT_EQ(first[0].scored_token_count, 64U);
  EXPECT_FALSE(first[0].wants_logits);
  scheduler_->Commit();
  const std::vector<ScheduledSlice>& second = scheduler_->Schedule();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].first_scored, 64U);
  EXPECT_EQ(second[0].scored_token_count, 5U);  // the last token's logits are drawn from
  EXPECT_TRUE(second[0].wants_logits);
  scheduler_->Commit();
}

TEST_F(ScoredPromptTest, WhatIsCachedIsComputedAnewAndStays) {
  CommitElsewhere(Text(12, 1));
  const SequenceId scored = SubmitScored(Text(14, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(scored, 14)));
  EXPECT_EQ(Computed(MissReason::kDisabled), 14U);
  EXPECT_EQ(scheduler_->Get(scored).cached_token_count, 0U);
  EXPECT_TRUE(IsCached(Text(12, 1)));
}

TEST_F(ScoredPromptTest, NobodyWaitsForThePartThatAnotherComputesOfIt) {
  Make({.max_batch_tokens = 40});
  const SequenceId first = Submit(Text(60, 1));
  const SequenceId scored = SubmitScored(Text(60, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(first, 40)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(first, 20), Pair(scored, 20)));
}

TEST_F(ScoredPromptTest, APromptScoredInPartCountsAsOneUnderWay) {
  Make({.block_count = 256, .max_batch_tokens = 100, .max_partial_prefills = 1});
  const SequenceId scored = SubmitScored(Text(200, 1));
  (void)Submit(Text(300, 2));
  EXPECT_THAT(Compute(), ElementsAre(Pair(scored, 64)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(scored, 64)));
}

}  // namespace
}  // namespace roost::worker

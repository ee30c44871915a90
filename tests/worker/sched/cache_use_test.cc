// A sequence's use of the cache: blocks kept for it while it waits or is preempted, rows of partial blocks, and nothing
// at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class CacheUseTest : public SchedulerTest {
 protected:
  SequenceId SubmitUncached(std::vector<TokenId> prompt) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .cache_mode = wire::CacheMode::kOff});
  }
};

TEST_F(CacheUseTest, AResumedSequenceComputesWhatWasEvictedAndOneToken) {
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

class WantedTest : public SchedulerTest {
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

TEST_F(CacheUseTest, TheEqualRowsOfABlockAreCopied) {
  const BlockId cached = CommitElsewhere(Text(12, 1))[1];
  const SequenceId id = Submit(Join(Text(6, 1), Text(5, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 5)));
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  EXPECT_EQ(scheduler_->copies()[0].from, cached);
  EXPECT_EQ(scheduler_->copies()[0].to, BlocksOf(id)[1]);
  EXPECT_EQ(scheduler_->copies()[0].row_count, 2U);
  EXPECT_EQ(scheduler_->counters().tail_cached_tokens, 2U);
}

TEST_F(CacheUseTest, OfAFullyCachedPromptAllRowsButTheLastAreCopied) {
  CommitElsewhere(Text(12, 1));
  const SequenceId id = Submit(Text(12, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 1)));
  ASSERT_EQ(scheduler_->copies().size(), 1U);
  EXPECT_EQ(scheduler_->copies()[0].row_count, 3U);
  EXPECT_EQ(scheduler_->Get(id).cached_token_count, 11U);
}

TEST_F(CacheUseTest, WhatASequenceLeftOfItsLastBlockIsCopied) {
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

TEST_F(CacheUseTest, NothingIsCopiedWhenThePoolHasNoRoomForBothBlocks) {
  Make({.block_count = 4});
  CommitElsewhere(Text(16, 1));
  const SequenceId id = Submit(Join(Text(14, 1), Text(1, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 3)));
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
}

TEST_F(CacheUseTest, WithOneMoreBlockTheRowsAreCopied) {
  Make({.block_count = 5});
  CommitElsewhere(Text(16, 1));
  const SequenceId id = Submit(Join(Text(14, 1), Text(1, 2)));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 1)));
  EXPECT_EQ(scheduler_->copies().size(), 1U);
}

// ---- without the cache ----

TEST_F(CacheUseTest, AnUncachedSequenceTakesNothingFromTheCache) {
  CommitElsewhere(Text(12, 1));
  const SequenceId id = SubmitUncached(Text(12, 1));
  EXPECT_THAT(Compute(), ElementsAre(Pair(id, 12)));
  EXPECT_THAT(scheduler_->copies(), IsEmpty());
  EXPECT_EQ(Computed(MissReason::kDisabled), 12U);
}

TEST_F(CacheUseTest, AnUncachedSequenceLeavesNothing) {
  const SequenceId id = SubmitUncached(Text(12, 1));
  Steps(7);
  scheduler_->Remove(id);
  CheckInvariants();
  EXPECT_EQ(cache_->ready_count(), 0U);
  EXPECT_EQ(pool_->free_count(), 64U);
}

TEST_F(CacheUseTest, NobodyWaitsForAnUncachedSequence) {
  Make({.max_batch_tokens = 20});
  const SequenceId uncached = SubmitUncached(Text(12, 1));
  const SequenceId cached = Submit(Text(12, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(uncached, 12), Pair(cached, 8)));
}

}  // namespace
}  // namespace roost::worker

// Tokens that are scheduled before they are known.
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

class AwaitedTokenTest : public SchedulerTest {
 protected:
  // A sequence whose prompt is computed and whose next token is awaited.
  SequenceId Awaiting(std::vector<TokenId> prompt) {
    const SequenceId id = Submit(std::move(prompt));
    Compute();
    scheduler_->AppendAwaited(id, 0);
    return id;
  }
};

TEST_F(AwaitedTokenTest, IsComputedLikeAnyOther) {
  const SequenceId id = Awaiting(Text(6, 1));
  const auto& slices = scheduler_->Schedule();
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_TRUE(slices[0].is_decode);
  EXPECT_TRUE(slices[0].wants_logits);
  EXPECT_EQ(slices[0].first_position, 6U);
  EXPECT_EQ(slices[0].sequence->awaited_draw, 0U);
  scheduler_->Commit();
  scheduler_->Resolve(id, 77);
  scheduler_->CommitResolved();
  EXPECT_EQ(scheduler_->Get(id).tokens.back(), 77U);
  EXPECT_FALSE(scheduler_->Get(id).awaited_draw.has_value());
  CheckInvariants();
}

TEST_F(AwaitedTokenTest, ItsBlockIsReadyWhenItIsKnownAndUnderItsHash) {
  const SequenceId id = Awaiting(Text(7, 1));
  Compute();  // fills the second block
  EXPECT_EQ(cache_->ready_count(), 1U);
  scheduler_->Resolve(id, 77);
  scheduler_->CommitResolved();
  EXPECT_EQ(cache_->ready_count(), 2U);
  EXPECT_TRUE(IsCached(Join(Text(7, 1), {77})));
  EXPECT_FALSE(IsCached(Join(Text(7, 1), {0})));
  CheckInvariants();
}

TEST_F(AwaitedTokenTest, WhoEndsBetweenItsTokenAndTheCommitLeavesItsBlock) {
  const SequenceId id = Awaiting(Text(7, 1));
  Compute();
  scheduler_->Resolve(id, 77);
  scheduler_->Remove(id);
  EXPECT_TRUE(IsCached(Join(Text(7, 1), {77})));
  scheduler_->CommitResolved();
  CheckInvariants();
  EXPECT_EQ(cache_->ready_count(), 2U);
}

TEST_F(AwaitedTokenTest, WhoEndsMeanwhileLeavesWhatIsKnown) {
  const SequenceId id = Awaiting(Text(6, 1));
  Compute();
  scheduler_->Remove(id);
  CheckInvariants();
  EXPECT_EQ(pool_->referenced_count(), 0U);
  // Two rows of the second block are cached, but not a third one, whose token is unknown.
  const SequenceId next = Submit(Join(Text(6, 1), {0, 0, 0}));
  Compute();
  EXPECT_EQ(scheduler_->Get(next).cached_token_count, 6U);
}

TEST_F(AwaitedTokenTest, WhoEndsBeforeItIsComputedLeavesWhatWasThere) {
  const SequenceId id = Awaiting(Text(6, 1));
  scheduler_->Remove(id);
  CheckInvariants();
  EXPECT_EQ(pool_->referenced_count(), 0U);
}

TEST_F(AwaitedTokenTest, WhoIsPreemptedMeanwhileGoesOnWithIt) {
  Make({.block_count = 4});
  const SequenceId first = Submit(Text(7, 1));
  const SequenceId second = Submit(Text(7, 2));
  Compute();
  scheduler_->AppendAwaited(first, 0);
  scheduler_->AppendAwaited(second, 1);
  Compute();
  scheduler_->Resolve(first, 50);
  scheduler_->Resolve(second, 60);
  scheduler_->CommitResolved();
  scheduler_->AppendAwaited(first, 0);
  scheduler_->AppendAwaited(second, 1);
  const auto computed = Compute();  // each wants a third block
  EXPECT_EQ(computed.count(first), 1U);
  EXPECT_EQ(computed.count(second), 0U);
  EXPECT_EQ(scheduler_->Get(second).state, Sequence::State::kWaiting);
  scheduler_->Resolve(first, 51);
  scheduler_->Resolve(second, 61);
  scheduler_->CommitResolved();
  CheckInvariants();
  scheduler_->Remove(first);
  while (scheduler_->Get(second).remaining_count() > 0) Compute();
  EXPECT_EQ(scheduler_->Get(second).tokens, Join(Text(7, 2), {60, 61}));
}

// Like a sequence whose next token depends on the previous one: it waits until that is appended.
TEST_F(AwaitedTokenTest, ASequenceWithoutOneIsLeftOutOnceAllIsComputed) {
  const SequenceId id = Submit(Text(6, 1));
  Compute();
  EXPECT_TRUE(Compute().empty());
  scheduler_->Append(id, 7);
  EXPECT_EQ(Compute().at(id), 1U);
}

// A preempted sequence with all but one of its tokens cached is dealt a token and decodes it. Nothing of that may
// remain for the step in which it has nothing to compute.
TEST_F(AwaitedTokenTest, NothingIsLeftOverOfWhatADecodeWasDealt) {
  Make({.block_count = 4});
  const SequenceId first = Submit(Text(3, 1));
  const SequenceId second = Submit(Text(4, 2));
  Step();
  Step();
  while (scheduler_->Get(second).state == Sequence::State::kRunning) Step();
  scheduler_->Remove(first);
  while (scheduler_->Get(second).remaining_count() > 0) Compute();
  EXPECT_TRUE(Compute().empty());
  CheckInvariants();
}

TEST_F(AwaitedTokenTest, MisuseEndsTheProcess) {
  const SequenceId id = Awaiting(Text(6, 1));
  EXPECT_DEATH(scheduler_->AppendAwaited(id, 1), "check failed");
  Compute();
  EXPECT_DEATH((void)scheduler_->Fork(id), "can not be forked");
  scheduler_->Resolve(id, 1);
  EXPECT_DEATH(scheduler_->Resolve(id, 1), "awaits no token");
}

}  // namespace
}  // namespace roost::worker

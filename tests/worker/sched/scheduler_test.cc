#include "worker/sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST_F(SchedulerTest, DecodesComeFirstAndPrefillTakesTheRestOfTheBudget) {
  Make({.max_batch_tokens = 10});
  const SequenceId a = Submit(Text(6, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 6)));
  const SequenceId b = Submit(Text(20, 2));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 9)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 9)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 2)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
}

TEST_F(SchedulerTest, FirstComeFirstServedWithinTheBudget) {
  Make({.max_batch_tokens = 10});
  const SequenceId a = Submit(Text(6, 1));
  const SequenceId b = Submit(Text(6, 2));
  const SequenceId c = Submit(Text(6, 3));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 6), Pair(b, 4)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 2), Pair(c, 6)));
}

TEST_F(SchedulerTest, RunsNoMoreThanAllowed) {
  Make({.max_running = 2});
  const SequenceId a = Submit(Text(5, 1));
  const SequenceId b = Submit(Text(5, 2));
  const SequenceId c = Submit(Text(5, 3));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 5), Pair(b, 5)));
  EXPECT_EQ(scheduler_->waiting_count(), 1U);
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 1), Pair(c, 5)));
}

TEST_F(SchedulerTest, EveryDecodeHasItsTokenInEveryStep) {
  Make({.max_batch_tokens = 3, .max_running = 64});
  for (TokenId i = 0; i < 10; ++i) Submit(Text(1, i));
  Step();
  EXPECT_EQ(scheduler_->running_count(), 3U);
  EXPECT_EQ(Step().size(), 3U);
}

TEST_F(SchedulerTest, WaitsForAPrefixThatIsBeingComputed) {
  Make({.max_batch_tokens = 8});
  std::vector<TokenId> longer = Text(18, 1);
  longer.push_back(5);
  const SequenceId a = Submit(Text(18, 1));
  const SequenceId b = Submit(longer);
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 2), Pair(b, 3)));
  EXPECT_EQ(scheduler_->Get(b).cached_token_count, 16U);
}

TEST_F(SchedulerTest, OthersPassOneThatWaitsForAPrefix) {
  Make({.max_batch_tokens = 10});
  const SequenceId a = Submit(Text(9, 1));
  const SequenceId b = Submit(Text(9, 1));
  const SequenceId c = Submit(Text(9, 2));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 9), Pair(c, 1)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 8)));
}

TEST_F(SchedulerTest, WaitsOnlyForWhatIsShared) {
  Make({.max_batch_tokens = 8});
  std::vector<TokenId> branch = Text(8, 1);
  branch.insert(branch.end(), 8, 5);
  const SequenceId a = Submit(Text(100, 1));
  const SequenceId b = Submit(branch);
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 8)));
  scheduler_->Remove(Submit(Text(5, 9)));
  // The two shared blocks are ready, so b no longer waits; but a has the budget.
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 8)));
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(scheduler_->Get(b).cached_token_count, 8U);
}

TEST_F(SchedulerTest, WhenTheComputingOneIsRemovedTheNextGoesOnFromWhereItWas) {
  Make({.max_batch_tokens = 8});
  const SequenceId a = Submit(Text(30, 1));
  const SequenceId b = Submit(Text(30, 1));
  const SequenceId c = Submit(Text(30, 1));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 8)));
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 8)));
  EXPECT_EQ(scheduler_->Get(b).cached_token_count, 8U);
  EXPECT_EQ(scheduler_->Get(c).state, Sequence::State::kWaiting);
}

TEST_F(SchedulerTest, TheMatchIsRepeatedAtEveryChunk) {
  Make({.max_batch_tokens = 5});
  // a decodes what is in b's prompt.
  const SequenceId a = Submit(Text(4, 1));
  Step(1);
  std::vector<TokenId> prompt = Text(4, 1);
  prompt.insert(prompt.end(), 40, 1);
  const SequenceId b = Submit(prompt);
  EXPECT_THAT(Step(1), ElementsAre(Pair(a, 1), Pair(b, 4)));
  // Meanwhile another request with b's prompt has put more of it into the cache.
  CommitElsewhere(prompt);
  EXPECT_THAT(Step(1), ElementsAre(Pair(a, 1), Pair(b, 4)));
  EXPECT_EQ(scheduler_->Get(b).computed_token_count, 44U);
  EXPECT_EQ(scheduler_->Get(b).cached_token_count, 36U);
}

TEST_F(SchedulerTest, PreemptsTheOneAdmittedLastAndPutsItFirstInTheQueue) {
  Make({.block_count = 8});
  const SequenceId a = Submit(Text(11, 1));
  const SequenceId b = Submit(Text(11, 2));
  Step();
  const SequenceId c = Submit(Text(15, 3));
  for (int i = 0; i < 5; ++i) Step();  // each holds four blocks of eight: 16 tokens
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(scheduler_->counters().preemptions, 1U);
  EXPECT_EQ(scheduler_->Get(b).state, Sequence::State::kWaiting);
  EXPECT_EQ(scheduler_->Get(b).token_count(), 17U);
  scheduler_->Remove(a);
  // Its blocks are still cached, except the one that a took; c waits behind it.
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 5)));
  scheduler_->Remove(b);
  EXPECT_THAT(Step(), ElementsAre(Pair(c, 15)));
}

TEST_F(SchedulerTest, AdmitsOnlyWhatFitsBesideThePromptsAdmittedBefore) {
  Make({.block_count = 10, .max_batch_tokens = 4});
  const SequenceId a = Submit(Text(20, 1));
  const SequenceId b = Submit(Text(20, 2));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Step(), ElementsAre(Pair(a, 4)));
  EXPECT_THAT(Step(), ElementsAre(Pair(a, 1)));  // ten blocks are too few for two prompts with output
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
  scheduler_->Remove(a);
  EXPECT_THAT(Step(), ElementsAre(Pair(b, 4)));
}

TEST_F(SchedulerTest, ExpiredAreThoseThatWaitWithoutOutput) {
  Make({.max_running = 1});
  const Instant now{std::chrono::seconds(10)};
  const auto later = [now](int seconds) { return now + std::chrono::seconds(seconds); };
  const SequenceId a = Submit(Text(5, 1), later(1));
  const SequenceId b = Submit(Text(5, 2), later(3));
  const SequenceId c = Submit(Text(5, 3), later(2));
  Submit(Text(5, 4));
  EXPECT_THAT(scheduler_->Expired(now), IsEmpty());
  EXPECT_THAT(scheduler_->Expired(later(1)), ElementsAre(a));
  Step();
  EXPECT_THAT(scheduler_->Expired(later(2)), ElementsAre(c));
  EXPECT_THAT(scheduler_->Expired(later(9)), ElementsAre(c, b));
  scheduler_->Remove(c);
  EXPECT_THAT(scheduler_->Expired(later(9)), ElementsAre(b));
}

TEST_F(SchedulerTest, QueuedPrefillCountsWhatIsNotCached) {
  Make({.max_batch_tokens = 10});
  const SequenceId a = Submit(Text(21, 1));
  EXPECT_EQ(scheduler_->Load().queued_prefill_tokens, 21U);
  Step();
  EXPECT_EQ(scheduler_->Load().queued_prefill_tokens, 11U);
  Submit(Text(21, 1));
  EXPECT_EQ(scheduler_->Load().queued_prefill_tokens, 11U + 1U);  // five blocks are there or will be
  Step();
  Step();
  Step();
  EXPECT_EQ(scheduler_->Load().queued_prefill_tokens, 0U);
  EXPECT_EQ(scheduler_->Load().running_context_tokens, 22U + 22U);
  scheduler_->Remove(a);
}

TEST_F(SchedulerTest, TheQueueIsBounded) {
  Make({.max_waiting = 1});
  Submit(Text(5, 1));
  const auto refused = scheduler_->Submit({.root = kRoot, .prompt = Text(5, 2), .block_hashes = {}, .deadline = {}});
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
}

TEST_F(SchedulerTest, APromptThatFillsTheContextIsRefused) {
  Make({.block_count = 4});
  const auto submit = [this](std::uint32_t count) {
    return scheduler_->Submit({.root = kRoot, .prompt = Text(count, 1), .block_hashes = {}, .deadline = {}});
  };
  EXPECT_EQ(submit(16).error().code, ErrorCode::kContextTooLong);
  EXPECT_TRUE(submit(15).ok());
  EXPECT_EQ(submit(0).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(SchedulerTest, WhoWaitsHoldsNoMemoryForItsOutput) {
  Make({.max_running = 1});
  const SequenceId running = Submit(SequenceSpec{.root = kRoot, .prompt = Text(8, 1), .max_output_tokens = 200});
  const SequenceId waiting = Submit(SequenceSpec{.root = kRoot, .prompt = Text(8, 2), .max_output_tokens = 200});
  Step();
  EXPECT_EQ(scheduler_->Get(running).tokens.capacity(), 208U);
  EXPECT_EQ(scheduler_->Get(waiting).tokens.capacity(), 8U);
  EXPECT_EQ(scheduler_->Get(waiting).hashes.capacity(), 2U);
  EXPECT_EQ(scheduler_->Get(waiting).blocks.capacity(), 0U);
}

}  // namespace
}  // namespace roost::worker

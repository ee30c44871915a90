// Running places and blocks have equal shares for the tenants that are here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;

class SharesTest : public SchedulerTest {
 protected:
  SequenceId SubmitOf(std::string_view tenant, std::vector<TokenId> prompt, std::uint32_t fork_count = 0) {
    return Submit(SequenceSpec{.root = kRoot, .prompt = std::move(prompt), .tenant = tenant, .fork_count = fork_count});
  }
  std::vector<SequenceId> SubmitMany(std::string_view tenant, std::uint32_t count, std::uint32_t tokens = 4) {
    std::vector<SequenceId> ids;
    for (std::uint32_t i = 0; i < count; ++i) ids.push_back(SubmitOf(tenant, Text(tokens, 100 + next_stream_++)));
    return ids;
  }
  // An arrival that holds the blocks of `here` tokens, and whose next block does not come.
  void BeginArrival(std::uint32_t here) {
    (void)CommitElsewhere(Text(here, 1));
    ArrivalSpec spec;
    spec.id = HoldId(1);
    spec.chain = {.root = kRoot, .hashes = HashBlocks(kRoot, {}, Text(here + kBlockTokens, 1), kBlockTokens)};
    ASSERT_TRUE(scheduler_->arrivals().Begin(std::move(spec)));
    ASSERT_EQ(scheduler_->arrivals().HeldAloneCount(), here / kBlockTokens);
  }
  [[nodiscard]] std::uint32_t RunningOf(const std::vector<SequenceId>& ids) const {
    std::uint32_t count = 0;
    for (const SequenceId id : ids) count += Waits(id) ? 0 : 1;
    return count;
  }

 private:
  TokenId next_stream_ = 0;
};

TEST_F(SharesTest, AnotherTenantGetsAPlaceAtOnce) {
  Make({.max_running = 4});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 10);
  Steps(2);
  const SequenceId client = SubmitOf("client", Text(4, 1));
  EXPECT_THAT(Step(), Contains(Key(client)));
  EXPECT_TRUE(Waits(greedy[3]));  // the last one admitted
  EXPECT_EQ(RunningOf(greedy), 3U);
  scheduler_->Remove(client);
  Steps(2);
  EXPECT_FALSE(Waits(greedy[3]));  // it goes on first
}

TEST_F(SharesTest, AnotherTenantGetsItsShareAndNoMore) {
  Make({.max_running = 4});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 10);
  Steps(2);
  const std::vector<SequenceId> others = SubmitMany("client", 10);
  Steps(20);
  EXPECT_EQ(RunningOf(greedy), 2U);
  EXPECT_EQ(RunningOf(others), 2U);
  const std::uint64_t preemptions = scheduler_->counters().preemptions;
  EXPECT_EQ(preemptions, 2U);  // and none any more
}

TEST_F(SharesTest, ASingleTenantHasAllPlaces) {
  Make({.max_running = 4});
  const std::vector<SequenceId> all = SubmitMany("one", 10);
  Steps(5);
  EXPECT_EQ(RunningOf(all), 4U);
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

TEST_F(SharesTest, AnotherTenantGetsSpace) {
  Make({.block_count = 40});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 4, 36);  // ten blocks each, with their first output
  Steps(2);
  ASSERT_EQ(RunningOf(greedy), 4U);
  const SequenceId client = SubmitOf("client", Text(30, 1));
  EXPECT_THAT(Step(), Contains(Key(client)));
  EXPECT_EQ(RunningOf(greedy), 3U);
}

// Others give a place only for a prompt that may start.
TEST_F(SharesTest, AShareStartsNoPromptInPartBeyondThoseThatMayPause) {
  Make({.max_batch_tokens = 8, .max_running = 4, .max_partial_prefills = 1});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 4);
  Steps(6);
  ASSERT_EQ(RunningOf(greedy), 4U);
  const std::vector<SequenceId> client = SubmitMany("client", 2, 40);
  Steps(2);
  EXPECT_EQ(RunningOf(client), 1U);
  EXPECT_EQ(RunningOf(greedy), 3U);
  Steps(20);
  EXPECT_EQ(RunningOf(client), 2U);
  EXPECT_EQ(RunningOf(greedy), 2U);
}

TEST_F(SharesTest, ArrivalsGiveWayBeforeRequestsDo) {
  Make({.block_count = 40});
  BeginArrival(40);
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 3, 36);  // ten blocks each, with their first output
  Steps(2);
  const SequenceId client = SubmitOf("client", Text(30, 2));
  EXPECT_THAT(Step(), Contains(Key(client)));
  EXPECT_FALSE(scheduler_->arrivals().NextEnd().has_value());
  EXPECT_EQ(RunningOf(greedy), 3U);
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

TEST_F(SharesTest, ArrivalsGiveWhatTheyHaveAndRequestsTheRest) {
  Make({.block_count = 40});
  BeginArrival(12);
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 4, 32);  // nine blocks each, with their first output
  Steps(2);
  const SequenceId client = SubmitOf("client", Text(50, 2));  // 13 blocks
  EXPECT_THAT(Step(), Contains(Key(client)));
  EXPECT_FALSE(scheduler_->arrivals().NextEnd().has_value());
  EXPECT_EQ(RunningOf(greedy), 3U);
  EXPECT_EQ(scheduler_->counters().preemptions, 1U);
}

TEST_F(SharesTest, WhatNeedsMoreThanTheShareWaits) {
  Make({.block_count = 40});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 4, 36);
  Steps(2);
  const SequenceId client = SubmitOf("client", Text(90, 1));
  EXPECT_THAT(Step(), Not(Contains(Key(client))));
  EXPECT_EQ(scheduler_->counters().preemptions, 0U);
}

TEST_F(SharesTest, TheFirstOfATenantIsNotPreempted) {
  Make({.block_count = 40});
  const SequenceId greedy = SubmitOf("greedy", Text(150, 1));  // nearly all
  Steps(2);
  const SequenceId client = SubmitOf("client", Text(20, 2));
  Steps(2);
  EXPECT_FALSE(Waits(greedy));
  EXPECT_TRUE(Waits(client));
}

TEST_F(SharesTest, WhoGrowsAboveItsSharePreemptsItsOwn) {
  Make({.block_count = 20});
  const SequenceId first = SubmitOf("greedy", Text(32, 1));
  const SequenceId second = SubmitOf("greedy", Text(24, 2));
  Steps(1);
  const SequenceId client = SubmitOf("client", Text(9, 3));  // the last one admitted
  Steps(1);
  for (int i = 0; i < 20 && !Waits(second); ++i) {
    Step();
    EXPECT_FALSE(Waits(client)) << "after " << i;
  }
  EXPECT_TRUE(Waits(second));
  EXPECT_FALSE(Waits(first));
}

TEST_F(SharesTest, WhoLacksABlockWithinItsShareGoesOnWithTheNextStep) {
  Make({.block_count = 20});
  const SequenceId first = SubmitOf("greedy", Text(33, 1));
  const SequenceId second = SubmitOf("greedy", Text(25, 2));
  Steps(1);
  const SequenceId client = SubmitOf("client", Text(15, 3));
  Step();
  for (int i = 0; i < 20 && !Waits(client); ++i) Step();
  ASSERT_TRUE(Waits(client));
  ASSERT_FALSE(Waits(second));
  Step();
  EXPECT_FALSE(Waits(client));
  EXPECT_TRUE(Waits(second));
  EXPECT_FALSE(Waits(first));
}

TEST_F(SharesTest, WhoGaveUpItsPlaceInThisStepIsNotTakenBack) {
  Make({.max_running = 2});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 2);
  Step();
  scheduler_->Remove(greedy[0]);
  const std::vector<SequenceId> more = SubmitMany("greedy", 1);
  Step();
  for (const auto& [id, count] : Compute()) scheduler_->AppendAwaited(id, 0);
  const SequenceId client = SubmitOf("client", Text(4, 1));
  EXPECT_THAT(Compute(), Contains(Key(client)));
  ASSERT_TRUE(Waits(more[0]));
  scheduler_->Remove(client);
  EXPECT_THAT(Compute(), Not(Contains(Key(more[0]))));  // its token is not known yet
  scheduler_->Resolve(more[0], 7);
  EXPECT_THAT(Compute(), Contains(Key(more[0])));
}

TEST_F(SharesTest, ChoicesCountAsPlaces) {
  Make({.max_running = 8});
  const std::vector<SequenceId> greedy = SubmitMany("greedy", 8);
  Steps(2);
  const SequenceId five = SubmitOf("client", Text(4, 1), 4);
  Step();
  EXPECT_TRUE(Waits(five));  // more than half of the places
  const SequenceId four = SubmitOf("client", Text(4, 2), 3);
  EXPECT_THAT(Step(), Contains(Key(four)));
  EXPECT_EQ(RunningOf(greedy), 4U);
}

}  // namespace
}  // namespace roost::worker

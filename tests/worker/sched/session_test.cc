// Sessions: what the last turn retained, until the next one comes.
#include <gtest/gtest.h>

#include "tests/worker/sched/scheduler_fixture.h"

namespace roost::worker {
namespace {

constexpr Duration kMinute = std::chrono::minutes(1);

class SessionTest : public SchedulerTest {
 protected:
  SequenceSpec Turn(std::uint64_t session, std::vector<TokenId> prompt, Duration retained = kMinute) {
    const RetentionHint hint{.priority = 60, .duration = retained};
    return {.root = kRoot,
            .prompt = std::move(prompt),
            .prompt_retention = hint,
            .decode_retention = hint,
            .session = session};
  }
  void Serve(const SequenceSpec& turn) {
    const SequenceId id = Submit(turn);
    Compute();
    scheduler_->Remove(id);
  }
  // Takes and frees this many blocks.
  void Squeeze(std::uint32_t block_count) {
    std::vector<BlockId> taken;
    while (taken.size() < block_count) taken.push_back(cache_->Allocate().value());
    for (const BlockId block : taken) cache_->Release(block, {});
  }
};

TEST_F(SessionTest, WhatIsRetainedForASessionOutlivesTheRest) {
  Make({.block_count = 8});
  Serve(Turn(1, Text(16, 1)));
  CommitElsewhere(Text(16, 2));
  Squeeze(4);
  EXPECT_TRUE(IsCached(Text(16, 1)));
  EXPECT_FALSE(IsCached(Text(16, 2)));
}

TEST_F(SessionTest, WhenItComesBackWithAnotherTextTheOldOneIsRetainedNoLonger) {
  Make({.block_count = 12});
  Serve(Turn(1, Text(16, 1)));
  const SequenceId next = Submit(Turn(1, Text(8, 2), Duration(0)));
  EXPECT_EQ(scheduler_->counters().returned_sessions, 1U);
  CommitElsewhere(Text(16, 3));
  Squeeze(8);  // four that were free, four of the session's first text, used before the other
  EXPECT_FALSE(IsCached(Text(4, 1)));
  EXPECT_TRUE(IsCached(Text(16, 3)));
  scheduler_->Remove(next);
}

TEST_F(SessionTest, AnotherSessionChangesNothing) {
  Make({.block_count = 12});
  Serve(Turn(1, Text(16, 1)));
  Serve(Turn(2, Text(8, 2), Duration(0)));
  CommitElsewhere(Text(16, 3));
  Squeeze(8);
  EXPECT_TRUE(IsCached(Text(16, 1)));
  EXPECT_EQ(scheduler_->counters().returned_sessions, 0U);
}

TEST_F(SessionTest, WhatAnotherOneHasRetainedLongerStays) {
  Make({.block_count = 8});
  Serve(Turn(1, Text(16, 1)));
  Serve(Turn(2, Text(16, 1), 2 * kMinute));
  Serve(Turn(1, Text(1, 9), Duration(0)));
  CommitElsewhere(Text(12, 3));
  Squeeze(4);
  EXPECT_TRUE(IsCached(Text(16, 1)));
}

TEST_F(SessionTest, WhoComesBackTooLateIsNotExpectedAnyMore) {
  Serve(Turn(1, Text(16, 1)));
  scheduler_->AdvanceTo(Instant() + kMinute);
  Serve(Turn(1, Text(16, 1)));
  EXPECT_EQ(scheduler_->counters().returned_sessions, 0U);
  Serve(Turn(1, Text(16, 1)));
  EXPECT_EQ(scheduler_->counters().returned_sessions, 1U);
}

// ---- the table alone ----

SessionTable::Turn TurnUntil(std::optional<Instant> prompt_end, std::optional<Instant> decode_end = std::nullopt) {
  return {.last = {}, .retention = {.prompt = {.end = prompt_end}, .decode = {.end = decode_end}}};
}

TEST(SessionTableTest, ATurnIsTakenBackOnce) {
  SessionTable table;
  table.Expect(1, TurnUntil(Instant() + kMinute));
  EXPECT_TRUE(table.TakeBack(1).has_value());
  EXPECT_FALSE(table.TakeBack(1).has_value());
}

TEST(SessionTableTest, ALaterTurnTakesTheEarlierOnesPlace) {
  SessionTable table;
  table.Expect(1, TurnUntil(Instant() + kMinute));
  table.Expect(1, TurnUntil(Instant() + 3 * kMinute));
  table.AdvanceTo(Instant() + 2 * kMinute);
  EXPECT_EQ(table.size(), 1U);
  table.Expect(1, TurnUntil(std::nullopt));  // nothing is retained after it
  EXPECT_EQ(table.size(), 0U);
}

TEST(SessionTableTest, TheLongerOfBothRetentionsCounts) {
  SessionTable table;
  table.Expect(1, TurnUntil(Instant() + kMinute, Instant() + 3 * kMinute));
  table.AdvanceTo(Instant() + 2 * kMinute);
  EXPECT_EQ(table.size(), 1U);
  table.AdvanceTo(Instant() + 3 * kMinute);
  EXPECT_EQ(table.size(), 0U);
}

TEST(SessionTableTest, ItIsBounded) {
  SessionTable table;
  for (std::uint64_t session = 0; session < SessionTable::kMaxSessions + 10; ++session) {
    table.Expect(session, TurnUntil(Instant() + kMinute));
  }
  EXPECT_EQ(table.size(), SessionTable::kMaxSessions);
}

}  // namespace
}  // namespace roost::worker

#include "router/index/lanes.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

constexpr WorkerSlot kWorker(5);
constexpr WorkerSlot kOther(1023);

void Advance(EpochGate& gate) {
  gate.TryAdvance();
  gate.TryAdvance();
}

TEST(EpochGateTest, ReaderHoldsUpWhatWasUnlinkedWhileItReads) {
  EpochGate gate;
  for (int round = 0; round < 5; ++round) {
    Epoch unlinked = 0;
    {
      const EpochGate::Pin pin(gate);
      unlinked = gate.now();
      for (int i = 0; i < 5; ++i) gate.TryAdvance();
      EXPECT_FALSE(gate.IsOver(unlinked));
      const EpochGate::Pin late(gate);
      EXPECT_FALSE(gate.IsOver(unlinked));
    }
    Advance(gate);
    EXPECT_TRUE(gate.IsOver(unlinked));
  }
}

TEST(LanesTest, RetiredLaneIsNobodysAtOnceAndFreeWhenItIsEmptyAndUnseen) {
  EpochGate gate;
  Lanes lanes(gate);
  const Lane first = lanes.Acquire(kWorker).value();
  EXPECT_EQ(lanes.OwnerOf(first), kWorker);
  lanes.AddBlock(first);
  lanes.AddBlock(first);
  lanes.Retire(first);
  EXPECT_FALSE(lanes.OwnerOf(first).has_value());
  EXPECT_EQ(lanes.retired_block_count(), 2U);

  Advance(gate);
  EXPECT_NE(lanes.Acquire(kOther), first);
  lanes.DropBlock(first);
  Advance(gate);
  EXPECT_NE(lanes.Acquire(kOther), first);
  lanes.DropBlock(first);
  EXPECT_EQ(lanes.retired_block_count(), 0U);
  EXPECT_NE(lanes.Acquire(kOther), first);  // a reader may still have its number
  Advance(gate);
  EXPECT_EQ(lanes.Acquire(kOther), first);
}

TEST(LanesTest, RunsOut) {
  EpochGate gate;
  Lanes lanes(gate);
  for (std::size_t i = 0; i < kMaxLanes; ++i) ASSERT_TRUE(lanes.Acquire(kWorker).has_value());
  EXPECT_FALSE(lanes.Acquire(kWorker).has_value());
}

TEST(DepthLimitTest, DeeperPositionsNeverHaveLowerClasses) {
  for (std::uint64_t position = 0; position < 64; ++position) EXPECT_EQ(DepthLimit::ClassOf(position), position);
  DepthClass previous = 0;
  for (std::uint64_t position = 0; position < 2'000'000; ++position) {
    const DepthClass depth = DepthLimit::ClassOf(position);
    ASSERT_TRUE(depth == previous || depth == previous + 1) << position;
    previous = depth;
  }
  EXPECT_EQ(previous, DepthLimit::kClasses - 1);
  EXPECT_EQ(DepthLimit::ClassOf(~std::uint64_t{0}), DepthLimit::kClasses - 1);
}

TEST(DepthLimitTest, PutsTheDeepestBehindItAndKeepsTheFirstBlocks) {
  DepthLimit limit;
  for (const DepthClass depth : {0U, 0U, 1U, 2U, 5U, 5U, 9U}) limit.Add(depth);
  EXPECT_EQ(limit.excess_count(), 0U);
  limit.Lower(2);
  EXPECT_EQ(limit.limit(), 5U);
  EXPECT_EQ(limit.excess_count(), 3U);
  limit.Drop(9);
  limit.Drop(5);
  limit.Drop(5);
  EXPECT_EQ(limit.excess_count(), 0U);
  limit.Lower(100);
  EXPECT_EQ(limit.limit(), 1U);
  EXPECT_EQ(limit.excess_count(), 2U);
  limit.Drop(1);
  limit.Drop(2);
  limit.Lift();
  EXPECT_EQ(limit.limit(), DepthLimit::kNone);
}

}  // namespace
}  // namespace roost::router

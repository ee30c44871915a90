#include "router/fleet/workers/view_sync.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

using Outcome = ViewSync::Outcome;

constexpr WorkerSlot kSlot(3);
constexpr BlockHash kA{.high = 1, .low = 10};
constexpr BlockHash kB{.high = 2, .low = 20};
constexpr BlockHash kC{.high = 3, .low = 30};

struct ViewSyncTest : ::testing::Test {
  PrefixIndex index;
  ViewSync sync{index, kSlot, {.epoch = 7, .block_count = 3}};
  std::uint64_t sequence = 0;

  wire::Snapshot Chunk(std::uint32_t number, bool last, std::vector<BlockHash> hashes) {
    wire::Snapshot chunk;
    chunk.epoch = 7;
    chunk.sequence = ++sequence;
    chunk.chunk_index = number;
    chunk.last = last;
    if (!hashes.empty()) chunk.runs = {{0, std::move(hashes)}};
    return chunk;
  }

  // A step after which the worker holds `held`.
  wire::Step Step(const std::vector<BlockHash>& held) {
    wire::Step step;
    step.epoch = 7;
    step.sequence = ++sequence;
    step.load.cached_block_count = static_cast<std::uint32_t>(held.size());
    for (const BlockHash hash : held) step.load.digest = step.load.digest ^ hash;
    return step;
  }
  static wire::CacheEvent Stored(std::vector<BlockHash> hashes) {
    return {wire::CacheEvent::Kind::kStored, {0, std::move(hashes)}, {}};
  }
  static wire::CacheEvent Removed(std::vector<BlockHash> hashes) {
    return {wire::CacheEvent::Kind::kRemoved, {}, std::move(hashes)};
  }
  // The same step, after which the disk has `on_disk`.
  static wire::Step WithDisk(wire::Step step, const std::vector<BlockHash>& on_disk) {
    step.load.disk_block_count = static_cast<std::uint32_t>(on_disk.size());
    for (const BlockHash hash : on_disk) step.load.disk_digest = step.load.disk_digest ^ hash;
    return step;
  }
  static wire::CacheEvent DiskStored(std::uint32_t first_position, std::vector<BlockHash> hashes) {
    wire::CacheEvent event;
    event.kind = wire::CacheEvent::Kind::kDiskStored;
    event.disk_stored = {first_position, std::move(hashes)};
    return event;
  }
  static wire::CacheEvent DiskRemoved(std::vector<BlockHash> hashes) {
    wire::CacheEvent event;
    event.kind = wire::CacheEvent::Kind::kDiskRemoved;
    event.disk_removed = std::move(hashes);
    return event;
  }
  std::uint64_t Count() { return index.View(kSlot).block_count; }
  std::uint64_t DiskCount() { return index.View(DiskOf(kSlot)).block_count; }
};

TEST_F(ViewSyncTest, DigestIsComparedOnlyAfterTheFirstSnapshot) {
  EXPECT_EQ(sync.Apply(Step({kA, kB})), Outcome::kApplied);
  EXPECT_TRUE(sync.awaiting());
  EXPECT_EQ(sync.Apply(Chunk(0, false, {kA})), Outcome::kApplied);
  EXPECT_FALSE(sync.in_sync() || sync.awaiting());
  EXPECT_EQ(sync.Apply(Step({kA, kB})), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(Chunk(1, true, {kB})), Outcome::kApplied);
  EXPECT_TRUE(sync.in_sync());
  EXPECT_EQ(sync.Apply(Step({kA, kB})), Outcome::kApplied);
}

TEST_F(ViewSyncTest, EventsKeepTheViewEqual) {
  ASSERT_EQ(sync.Apply(Chunk(0, true, {})), Outcome::kApplied);
  wire::Step step = Step({kA, kC});
  step.events = {Stored({kA, kB}), Removed({kB}), Stored({kC})};
  EXPECT_EQ(sync.Apply(step), Outcome::kApplied);
  EXPECT_EQ(Count(), 2U);
  EXPECT_EQ(sync.stored_block_count(), 3U);
  EXPECT_EQ(sync.removed_block_count(), 1U);
}

TEST_F(ViewSyncTest, DifferenceAwaitsASnapshotAndSkipsEventsUntilThen) {
  ASSERT_EQ(sync.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(Step({kB})), Outcome::kWantSnapshot);
  EXPECT_TRUE(sync.awaiting());
  wire::Step step = Step({kB, kC});
  step.events = {Stored({kC})};
  EXPECT_EQ(sync.Apply(step), Outcome::kApplied);
  EXPECT_EQ(Count(), 1U);  // the old view stays
  EXPECT_EQ(sync.Apply(Chunk(0, true, {kB, kC})), Outcome::kApplied);
  EXPECT_EQ(index.View(kSlot).digest, kB ^ kC);
  EXPECT_TRUE(sync.in_sync());
}

TEST_F(ViewSyncTest, EqualDigestWithAnotherCountIsADifference) {
  ASSERT_EQ(sync.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
  wire::Step step = Step({kA});
  step.load.cached_block_count = 2;
  EXPECT_EQ(sync.Apply(step), Outcome::kWantSnapshot);
}

TEST_F(ViewSyncTest, GapAndForeignEpochBreakTheLinkAndDuplicatesDoNot) {
  const wire::Snapshot first = Chunk(0, true, {kA});
  ASSERT_EQ(sync.Apply(first), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(first), Outcome::kDuplicate);
  ++sequence;
  EXPECT_EQ(sync.Apply(Step({kA})), Outcome::kLinkBroken);
  sequence = 1;
  wire::Step foreign = Step({kA});
  foreign.epoch = 8;
  EXPECT_EQ(sync.Apply(foreign), Outcome::kLinkBroken);
  sequence = 1;
  EXPECT_EQ(sync.Apply(Step({kA})), Outcome::kApplied);
}

TEST_F(ViewSyncTest, MissingChunkWantsTheSnapshotAgain) {
  ASSERT_EQ(sync.Apply(Chunk(0, false, {kA})), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(Chunk(2, true, {kB})), Outcome::kWantSnapshot);
  EXPECT_EQ(sync.Apply(Chunk(1, true, {kB})), Outcome::kWantSnapshot);
  EXPECT_EQ(sync.Apply(Chunk(0, true, {kC})), Outcome::kApplied);
  EXPECT_EQ(index.View(kSlot).digest, kC);
}

TEST_F(ViewSyncTest, WorkerCanNotHoldMoreThanItsPool) {
  EXPECT_EQ(sync.Apply(Chunk(0, true, {kA, kB, kC, {.high = 4, .low = 40}})), Outcome::kWantSnapshot);
  EXPECT_EQ(Count(), 0U);
}

TEST_F(ViewSyncTest, DiskIsASecondSetThatOneSnapshotBringsToo) {
  wire::Snapshot chunk = Chunk(0, true, {kA});
  chunk.disk_runs = {{0, {kA, kB}}};
  ASSERT_EQ(sync.Apply(chunk), Outcome::kApplied);
  EXPECT_EQ(DiskCount(), 2U);
  wire::Step step = WithDisk(Step({}), {kA, kB, kC});
  step.events = {Removed({kA}), DiskStored(2, {kC})};
  EXPECT_EQ(sync.Apply(step), Outcome::kApplied);
  const std::vector<WorkerMatch> matches = index.Match(std::vector{kA, kB, kC});
  ASSERT_EQ(matches.size(), 1U);
  EXPECT_EQ(matches[0].worker, DiskOf(kSlot));
  EXPECT_EQ(matches[0].block_count, 3U);
  step = WithDisk(Step({}), {kA});
  step.events = {DiskRemoved({kC, kB})};
  EXPECT_EQ(sync.Apply(step), Outcome::kApplied);
  EXPECT_TRUE(sync.in_sync());
  EXPECT_EQ(sync.stored_block_count(), 1U);
  sync.Suspend();
  EXPECT_EQ(DiskCount(), 0U);
}

TEST_F(ViewSyncTest, DifferenceOnDiskAloneAwaitsASnapshot) {
  ASSERT_EQ(sync.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(WithDisk(Step({kA}), {kB})), Outcome::kWantSnapshot);
  wire::Snapshot chunk = Chunk(0, true, {kA});
  chunk.disk_runs = {{0, {kB}}};
  ASSERT_EQ(sync.Apply(chunk), Outcome::kApplied);
  EXPECT_EQ(sync.Apply(WithDisk(Step({kA}), {kB})), Outcome::kApplied);
  // Equal digests of another count.
  wire::Step step = WithDisk(Step({kA}), {kB});
  step.load.disk_block_count = 2;
  EXPECT_EQ(sync.Apply(step), Outcome::kWantSnapshot);
}

TEST_F(ViewSyncTest, WorkerThatTakesMoreFromItsDiskThanItPutThereLosesBothSets) {
  ASSERT_EQ(sync.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
  wire::Step step = WithDisk(Step({kA}), {kB});
  step.events = {DiskStored(0, {kB}), DiskRemoved({kB, kC})};
  EXPECT_EQ(sync.Apply(step), Outcome::kWantSnapshot);
  EXPECT_EQ(Count(), 0U);
  EXPECT_EQ(DiskCount(), 0U);
  EXPECT_EQ(sync.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
  EXPECT_TRUE(sync.in_sync());
}

TEST_F(ViewSyncTest, EndOfTheEpochForgetsTheBlocks) {
  PrefixIndex other;
  {
    ViewSync short_lived(other, kSlot, {.epoch = 7, .block_count = 3});
    ASSERT_EQ(short_lived.Apply(Chunk(0, true, {kA})), Outcome::kApplied);
    EXPECT_EQ(other.View(kSlot).block_count, 1U);
  }
  EXPECT_EQ(other.View(kSlot).block_count, 0U);
  EXPECT_TRUE(other.Match(std::vector{kA}).empty());
}

}  // namespace
}  // namespace roost::router

#include "worker/link/snapshot_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "common/base/rng.h"
#include "tests/support/cache_user.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::CacheUser;
using wire::CacheEvent;
using wire::StoredRun;

constexpr std::uint32_t kBlockTokens = 4;

BlockHash Block(std::uint64_t number) { return {number, number}; }

CacheEvent Stored(std::uint32_t first_position, std::vector<BlockHash> hashes) {
  return {.kind = CacheEvent::Kind::kStored, .stored = {first_position, std::move(hashes)}, .removed = {}};
}

CacheEvent Removed(std::vector<BlockHash> hashes) {
  return {.kind = CacheEvent::Kind::kRemoved, .stored = {}, .removed = std::move(hashes)};
}

SnapshotMirror MirrorOf(const std::vector<CacheEvent>& events) {
  SnapshotMirror mirror(10);
  mirror.Apply(events);
  return mirror;
}

TEST(SnapshotMirrorTest, IsEmptyAtFirst) {
  const SnapshotMirror mirror(10);
  EXPECT_THAT(mirror.Snapshot(), IsEmpty());
  EXPECT_EQ(mirror.digest(), BlockHash());
}

TEST(SnapshotMirrorTest, GivesRunsAsTheyWereStored) {
  const SnapshotMirror mirror =
      MirrorOf({Stored(0, {Block(1), Block(2)}), Stored(0, {Block(3)}), Stored(2, {Block(4)})});
  EXPECT_THAT(mirror.Snapshot(),
              ElementsAre(StoredRun{0, {Block(1), Block(2)}}, StoredRun{0, {Block(3)}}, StoredRun{2, {Block(4)}}));
  EXPECT_EQ(mirror.ready_count(), 4U);
  EXPECT_EQ(mirror.digest(), Block(1) ^ Block(2) ^ Block(3) ^ Block(4));
}

TEST(SnapshotMirrorTest, ARunLosesItsEnd) {
  const SnapshotMirror mirror =
      MirrorOf({Stored(0, {Block(1), Block(2), Block(3)}), Removed({Block(3), Block(2)}), Stored(1, {Block(4)})});
  EXPECT_THAT(mirror.Snapshot(), ElementsAre(StoredRun{0, {Block(1)}}, StoredRun{1, {Block(4)}}));
  EXPECT_EQ(mirror.digest(), Block(1) ^ Block(4));
}

TEST(SnapshotMirrorTest, ARunWithoutItsMiddleIsTwo) {
  const SnapshotMirror mirror = MirrorOf({Stored(5, {Block(1), Block(2), Block(3), Block(4)}), Removed({Block(2)})});
  EXPECT_THAT(mirror.Snapshot(), ElementsAre(StoredRun{5, {Block(1)}}, StoredRun{7, {Block(3), Block(4)}}));
}

TEST(SnapshotMirrorTest, KeepsOrderAndRunsWhenTheLogIsPacked) {
  SnapshotMirror mirror(4);  // seven slots
  mirror.Apply(std::vector{Stored(0, {Block(1), Block(2), Block(3), Block(4)}), Removed({Block(2), Block(4)})});
  for (std::uint64_t i = 0; i < 20; ++i) mirror.Apply(std::vector{Stored(1, {Block(10)}), Removed({Block(10)})});
  mirror.Apply(std::vector{Stored(0, {Block(5), Block(6)})});
  EXPECT_THAT(mirror.Snapshot(),
              ElementsAre(StoredRun{0, {Block(1)}}, StoredRun{2, {Block(3)}}, StoredRun{0, {Block(5), Block(6)}}));
}

TEST(SnapshotMirrorTest, ARunThatComesWhileTheLogIsPackedStaysOne) {
  for (std::uint64_t offset = 0; offset < 7; ++offset) {
    SnapshotMirror mirror(4);
    for (std::uint64_t i = 0; i < offset; ++i) mirror.Apply(std::vector{Stored(0, {Block(9)}), Removed({Block(9)})});
    mirror.Apply(std::vector{Stored(3, {Block(1), Block(2), Block(3)})});
    EXPECT_THAT(mirror.Snapshot(), ElementsAre(StoredRun{3, {Block(1), Block(2), Block(3)}}));
  }
}

TEST(SnapshotMirrorTest, StartsAnewFromRuns) {
  SnapshotMirror mirror = MirrorOf({Stored(0, {Block(1), Block(2)})});
  const std::vector<StoredRun> runs{{0, {Block(2), Block(3)}}, {1, {Block(4)}}};
  mirror.Assign(runs);
  EXPECT_EQ(mirror.Snapshot(), runs);
  EXPECT_EQ(mirror.digest(), Block(2) ^ Block(3) ^ Block(4));
  mirror.Apply(std::vector{Removed({Block(4)})});
  EXPECT_EQ(mirror.ready_count(), 2U);
}

TEST(SnapshotMirrorDeathTest, StopsAtEventsThatCanNotBe) {
  SnapshotMirror mirror = MirrorOf({Stored(0, {Block(1)})});
  EXPECT_DEATH(mirror.Apply(std::vector{Stored(0, {Block(1)})}), "stored twice");
  EXPECT_DEATH(mirror.Apply(std::vector{Removed({Block(2)})}), "was not there");
}

// The real cache under churn: after each request the mirror equals the cache.
class Churn {
 public:
  explicit Churn(std::uint64_t seed)
      : rng_(seed),
        block_count_(static_cast<std::uint32_t>(1 + rng_.Below(60))),
        pool_(block_count_),
        cache_(pool_, {.block_tokens = kBlockTokens}, std::make_unique<LruEviction>(block_count_)),
        mirror_(block_count_) {}

  void Step() {
    CacheUser user = RandomPrompt();
    for (std::size_t i = 0; i < user.hashes.size(); ++i) {
      places_[user.hashes[i]] = {static_cast<std::uint32_t>(i), i == 0 ? BlockHash() : user.hashes[i - 1]};
    }
    user.Use(cache_);
    if (rng_.Below(2) == 0) ApplyEvents();
    user.Release(cache_);
    ApplyEvents();
    Compare();
  }

 private:
  struct TreePosition {
    std::uint32_t position = 0;
    BlockHash parent;
  };

  CacheUser RandomPrompt() {
    std::vector<TokenId> tokens;
    for (std::uint64_t block = rng_.Below(20); block > 0; --block) {
      tokens.insert(tokens.end(), kBlockTokens, static_cast<TokenId>(rng_.Below(rng_.Below(3) + 1)));
    }
    return {BlockHash{1, rng_.Below(2)}, std::move(tokens), kBlockTokens};
  }

  void ApplyEvents() { mirror_.Apply(cache_.TakeEvents()); }

  void Compare() {
    std::set<BlockHash> seen;
    for (const StoredRun& run : mirror_.Snapshot()) {
      for (std::size_t i = 0; i < run.hashes.size(); ++i) {
        const BlockHash hash = run.hashes[i];
        const TreePosition& expected = places_.at(hash);
        ASSERT_EQ(run.first_position + i, expected.position);
        ASSERT_TRUE(expected.position == 0 || seen.contains(expected.parent)) << "a child comes before its parent";
        ASSERT_TRUE(i == 0 || expected.parent == run.hashes[i - 1]) << "a run is no path";
        ASSERT_TRUE(seen.insert(hash).second);
      }
    }
    std::set<BlockHash> ready;
    for (const StoredRun& run : Snapshot(cache_.tree())) ready.insert(run.hashes.begin(), run.hashes.end());
    ASSERT_EQ(seen, ready);
    ASSERT_EQ(mirror_.digest(), cache_.digest());
    ASSERT_EQ(mirror_.ready_count(), cache_.ready_count());
  }

  Rng rng_;
  std::uint32_t block_count_;
  BlockPool pool_;
  PrefixCache cache_;
  SnapshotMirror mirror_;
  std::map<BlockHash, TreePosition> places_;  // of every block so far
};

TEST(SnapshotMirrorTest, HoldsWhatTheCacheHoldsUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Churn churn(seed);
    for (int step = 0; step < 200; ++step) {
      churn.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace roost::worker

#include "worker/cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/cache/prefix_cache_fixture.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing_support::CacheUser;
using Kind = CommitResult::Kind;

class PrefixCacheTest : public testing_support::PrefixCacheFixture {};

TEST_F(PrefixCacheTest, AnIdenticalPromptMatchesAllFullBlocks) {
  EXPECT_EQ(Visit("abc"), 0U);
  EXPECT_EQ(Visit("abc"), 3U);
  ExpectSound();
}

TEST_F(PrefixCacheTest, DifferentSuffixesShareTheirPrefix) {
  EXPECT_EQ(Visit("abx"), 0U);
  EXPECT_EQ(Visit("aby"), 2U);
  EXPECT_EQ(Visit("abyz"), 3U);
  EXPECT_EQ(cache().ready_count(), 5U);
  ExpectSound();
}

TEST_F(PrefixCacheTest, EqualBlocksAtOtherPositionsAreNoHit) {
  EXPECT_EQ(Visit("ab"), 0U);
  EXPECT_EQ(Visit("ba"), 0U);
  EXPECT_EQ(Visit("cab"), 0U);
  EXPECT_EQ(cache().counters().verification_misses, 0U);
}

TEST_F(PrefixCacheTest, AnotherScopeSharesNothing) {
  EXPECT_EQ(Visit("abc", {1, 1}), 0U);
  EXPECT_EQ(Visit("abc", {2, 2}), 0U);
  EXPECT_EQ(Visit("abc", {1, 1}), 3U);
}

TEST_F(PrefixCacheTest, TheLimitCutsTheMatch) {
  Visit("abc");
  const CacheUser user = User("abc");
  std::vector<BlockRef> matched;
  cache().Match(user.chain(), 2, matched);
  EXPECT_EQ(matched.size(), 2U);
}

TEST_F(PrefixCacheTest, EvictsTheLeastRecentlyUsedLeaf) {
  Visit("ab");
  Visit("cd");
  Visit("ef");
  Visit("ab");  // now cd is the oldest
  CacheUser user = User("xyz");
  user.Use(cache());  // two were free: one victim
  EXPECT_EQ(Cached("cd"), 1U);
  EXPECT_EQ(Cached("ab"), 2U);
  EXPECT_EQ(Cached("ef"), 2U);
  ExpectSound({&user});
  user.Release(cache());
}

TEST_F(PrefixCacheTest, EvictsParentsOnlyAfterTheirChildren) {
  Visit("abcdefgh");
  std::uint32_t left = 8;
  CacheUser user = User("stuvwxyz");
  while (left > 0) {
    ASSERT_TRUE(user.FillNext(cache()).has_value());
    EXPECT_EQ(Cached("abcdefgh"), --left);
    ExpectSound({&user});
  }
  user.Release(cache());
}

TEST_F(PrefixCacheTest, AParentUsedLaterOutlivesOlderLeaves) {
  Visit("ab");  // b is older than the second use of a
  Visit("cd");
  Visit("a");
  CacheUser user = User("stuvwxy");  // four were free: three victims, b, d, c
  user.Use(cache());
  EXPECT_EQ(Cached("ab"), 1U);
  EXPECT_EQ(Cached("cd"), 0U);
  user.Release(cache());
}

TEST_F(PrefixCacheTest, AllocatesNothingWhenAllBlocksAreReferenced) {
  CacheUser user = User("abcdefgh");
  user.Use(cache());
  EXPECT_FALSE(cache().Allocate().has_value());
  EXPECT_EQ(cache().counters().evicted_blocks, 0U);
  user.Release(cache());
  ExpectSound();
}

TEST_F(PrefixCacheTest, ABlockComputedTwiceIsMerged) {
  CacheUser first = User("ab");
  CacheUser second = User("ab");
  first.blocks.push_back(cache().Allocate().value());
  second.blocks.push_back(cache().Allocate().value());
  EXPECT_EQ(cache().Commit(first.chain(), 0, first.blocks).kind, Kind::kStored);
  const CommitResult merged = cache().Commit(second.chain(), 0, second.blocks);
  EXPECT_EQ(merged.kind, Kind::kMerged);
  EXPECT_EQ(merged.block, first.blocks[0]);
  second.blocks[0] = merged.block;
  EXPECT_EQ(pool().free_count(), 7U);
  EXPECT_EQ(pool().references(first.blocks[0]), 2U);
  ExpectSound({&first, &second});
  first.Release(cache());
  second.Release(cache());
}

TEST_F(PrefixCacheTest, ALyingHashIsAMissAndACount) {
  Visit("ab");
  CacheUser liar = User("xy");
  liar.hashes = User("ab").hashes;
  EXPECT_EQ(liar.Match(cache()), 0U);
  EXPECT_EQ(cache().counters().verification_misses, 1U);
  EXPECT_EQ(liar.FillNext(cache())->kind, Kind::kCollided);
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound({&liar});
  liar.Release(cache());
  EXPECT_EQ(pool().free_count(), 6U);  // the liar's block was its own
}

TEST_F(PrefixCacheTest, AHashOfTheRightTokensBehindAnotherParentIsAMiss) {
  Visit("ab");
  CacheUser liar = User("xb");
  liar.hashes[1] = User("ab").hashes[1];
  EXPECT_EQ(liar.FillNext(cache())->kind, Kind::kStored);
  EXPECT_FALSE(cache().Find(liar.chain(), 1, liar.blocks).has_value());
  EXPECT_EQ(cache().counters().verification_misses, 1U);
  liar.Release(cache());
}

TEST_F(PrefixCacheTest, AHashFromAnotherScopeIsAMiss) {
  Visit("ab", {1, 1});
  CacheUser liar = User("ab", {2, 2});
  liar.hashes = User("ab", {1, 1}).hashes;
  EXPECT_EQ(liar.Match(cache()), 0U);
  EXPECT_EQ(cache().counters().verification_misses, 1U);
}

TEST_F(PrefixCacheTest, EventsTellRunsAndRemovalsInOrder) {
  const std::vector<BlockHash> old = User("abcdefgh").hashes;
  const std::vector<BlockHash> fresh = User("xy").hashes;
  Visit("abcdefgh");
  Visit("xy");
  const std::vector<wire::CacheEvent> events = cache().TakeEvents();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].kind, wire::CacheEvent::Kind::kStored);
  EXPECT_EQ(events[0].stored.first_position, 0U);
  EXPECT_EQ(events[0].stored.hashes, old);
  EXPECT_EQ(events[1].kind, wire::CacheEvent::Kind::kRemoved);
  EXPECT_THAT(events[1].removed, ElementsAre(old[7]));
  EXPECT_THAT(events[2].stored.hashes, ElementsAre(fresh[0]));
  EXPECT_THAT(events[3].removed, ElementsAre(old[6]));
  EXPECT_EQ(events[4].stored.first_position, 1U);
  EXPECT_THAT(events[4].stored.hashes, ElementsAre(fresh[1]));
  EXPECT_TRUE(cache().TakeEvents().empty());
}

TEST_F(PrefixCacheTest, TheSnapshotListsParentsBeforeChildren) {
  Visit("abc");
  Visit("abd");
  Visit("e");
  const auto abc = User("abc").hashes;
  const auto abd = User("abd").hashes;
  const auto e = User("e").hashes;
  std::vector<BlockHash> all;
  for (const wire::StoredRun& run : cache().Snapshot()) {
    for (std::size_t i = 0; i < run.hashes.size(); ++i) {
      if (run.hashes[i] == abc[2] || run.hashes[i] == abd[2]) {
        EXPECT_EQ(run.first_position + i, 2U);
        EXPECT_THAT(all, testing::Contains(abc[1]));
      }
      all.push_back(run.hashes[i]);
    }
  }
  EXPECT_THAT(all, testing::UnorderedElementsAre(abc[0], abc[1], abc[2], abd[2], e[0]));
  BlockHash digest;
  for (const BlockHash hash : all) digest = digest ^ hash;
  EXPECT_EQ(digest, cache().digest());
}

TEST_F(PrefixCacheTest, TheDigestOfAnEmptyCacheIsZero) {
  EXPECT_EQ(cache().digest(), BlockHash{});
  EXPECT_TRUE(cache().Snapshot().empty());
}

using PrefixCacheDeathTest = PrefixCacheTest;

TEST_F(PrefixCacheDeathTest, StopsWhenAMatchedBlockWasEvictedSince) {
  Visit("a");
  const CacheUser user = User("a");
  std::vector<BlockRef> matched;
  cache().Match(user.chain(), 1, matched);
  CacheUser other = User("stuvwxyz");
  other.Use(cache());
  EXPECT_DEATH(cache().Acquire(matched[0]), "was freed since it was matched");
}

TEST_F(PrefixCacheDeathTest, InvariantsNameALostReference) {
  CacheUser user = User("a");
  user.Use(cache());
  const std::vector<std::uint32_t> none(8);
  EXPECT_EQ(cache().CheckInvariants(none).error().message, "block 0 has 1 references, 0 tables hold it");
}

}  // namespace
}  // namespace roost::worker

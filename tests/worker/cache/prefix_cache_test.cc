#include "worker/cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_views.h"

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

TEST_F(PrefixCacheTest, AnIdleBlockIsFreedOnRequest) {
  Visit("ab");
  const std::uint32_t available = cache().available_count();
  EXPECT_TRUE(cache().EvictOne());
  EXPECT_EQ(cache().ready_count(), 1U);
  EXPECT_EQ(cache().available_count(), available);
  EXPECT_FALSE(cache().WasEvicted(Hashes("ab")[0]));
  EXPECT_TRUE(cache().WasEvicted(Hashes("ab")[1]));
  EXPECT_TRUE(cache().EvictOne());
  EXPECT_FALSE(cache().EvictOne());
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
  for (const wire::StoredRun& run : Snapshot(cache().tree())) {
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
  EXPECT_TRUE(Snapshot(cache().tree()).empty());
}

// ---- ghosts ----

TEST_F(PrefixCacheTest, AnEvictedBlockIsRememberedUntilItIsStoredAgain) {
  const BlockHash hash = Hashes("a")[0];
  EXPECT_FALSE(cache().WasEvicted(hash));
  Visit("a");
  EXPECT_FALSE(cache().WasEvicted(hash));
  Visit("stuvwxyz");
  EXPECT_TRUE(cache().WasEvicted(hash));
  Visit("a");
  EXPECT_FALSE(cache().WasEvicted(hash));
}

TEST_F(PrefixCacheTest, AsManyEvictionsAreRememberedAsThePoolHasBlocks) {
  Make(2);
  Visit("a");
  Visit("b");
  Visit("c");
  Visit("d");
  EXPECT_TRUE(cache().WasEvicted(Hashes("a")[0]));
  Visit("e");
  EXPECT_FALSE(cache().WasEvicted(Hashes("a")[0]));
  EXPECT_TRUE(cache().WasEvicted(Hashes("b")[0]));
  EXPECT_TRUE(cache().WasEvicted(Hashes("c")[0]));
}

// ---- forks ----

TEST_F(PrefixCacheTest, AForkSharesReadyAndPendingBlocksUntilItWritesItsOwn) {
  CacheUser first = User("ab");
  first.FillNext(cache());
  first.blocks.push_back(cache().Allocate().value());  // b is pending
  CacheUser fork = User("ac");
  fork.blocks = first.blocks;
  for (const BlockId block : fork.blocks) cache().Share(block);
  ExpectSound({&first, &fork});
  EXPECT_EQ(pool().free_count(), 6U);

  const BlockId own = cache().Allocate().value();
  cache().Release(fork.blocks[1], {});
  fork.blocks[1] = own;
  EXPECT_EQ(cache().Commit(first.chain(), 1, first.blocks).kind, Kind::kStored);
  EXPECT_EQ(cache().Commit(fork.chain(), 1, fork.blocks).kind, Kind::kStored);
  ExpectSound({&first, &fork});
  EXPECT_EQ(Cached("ab"), 2U);
  EXPECT_EQ(Cached("ac"), 2U);
  first.Release(cache());
  fork.Release(cache());
  ExpectSound();
}

TEST_F(PrefixCacheTest, APendingBlockThatTwoHoldIsFreeWhenBothLetGo) {
  const BlockId block = cache().Allocate().value();
  cache().Share(block);
  cache().Release(block, {});
  EXPECT_EQ(pool().free_count(), 7U);
  cache().Release(block, {});
  EXPECT_EQ(pool().free_count(), 8U);
}

// ---- basic cases that every prefix cache must handle (match, parents, scopes: see above) ----

TEST_F(PrefixCacheTest, PromptsThatPartWithinABlockSplitAtTheBlockBeforeAndShareItsTokensAsATail) {
  Visit("abc");
  CacheUser user = User("abd");
  user.tokens[8] = Tokens("c")[0];  // only the first token of block d is c's
  user.hashes = HashBlocks(user.root, user.tokens, testing_support::kLetterTokens);
  EXPECT_EQ(user.Match(cache()), 2U);
  EXPECT_EQ(cache().FindTail(user.chain(), user.blocks, 4).value().token_count, 1U);
  EXPECT_EQ(user.FillNext(cache())->kind, Kind::kStored);
  EXPECT_EQ(cache().ready_count(), 4U);  // a and b once, c and d below
  ExpectSound({&user});
  user.Release(cache());
}

TEST_F(PrefixCacheTest, BlocksInUseAreNeverEvicted) {
  CacheUser user = User("abc");
  user.Use(cache());
  Visit("xyz");
  EXPECT_EQ(Take(8), "zyx");
  EXPECT_EQ(Cached("abc"), 3U);
  ExpectSound({&user});
  user.Release(cache());
  EXPECT_EQ(Take(1), "c");
}

// Full blocks of the shared tokens are matched, and the rest is found as a tail.
TEST_F(PrefixCacheTest, SharedTokensAreFoundToTheLastOneAlignedOrNot) {
  constexpr std::uint32_t kBlockTokens = 16;
  for (const std::uint32_t shared : {4096U, 4097U}) {
    BlockPool large(1024);
    PrefixCache aligned(large, {.block_tokens = kBlockTokens}, std::make_unique<LruEviction>(1024));
    const auto prompt = [shared](TokenId rest) {
      std::vector<TokenId> tokens(shared);
      for (std::uint32_t i = 0; i < shared; ++i) tokens[i] = i % 100;
      tokens.insert(tokens.end(), 64, 1000 + rest);
      return CacheUser({1, 1}, std::move(tokens), kBlockTokens);
    };
    CacheUser first = prompt(1);
    first.Use(aligned);
    first.Release(aligned);
    CacheUser second = prompt(2);
    EXPECT_EQ(second.Match(aligned), 256U);
    const std::optional<TailMatch> tail = aligned.FindTail(second.chain(), second.blocks, kBlockTokens);
    EXPECT_EQ(tail ? tail->token_count : 0, shared - 4096);
    second.Release(aligned);
  }
}

// The classic worst case of LRU: prompts in rotation, one more than fit.
TEST_F(PrefixCacheTest, PromptsInTurnThatDoNotFitTogetherThrash) {
  Make(4);
  for (int round = 0; round < 5; ++round) {
    for (const std::string_view letter : {"a", "b", "c", "d", "e"}) EXPECT_EQ(Visit(letter), 0U);
  }
  EXPECT_EQ(cache().counters().evicted_blocks, 21U);
  ExpectSound();
}

TEST_F(PrefixCacheTest, PromptsInTurnThatFitTogetherAllHit) {
  Make(5);
  for (int round = 0; round < 5; ++round) {
    for (const std::string_view letter : {"a", "b", "c", "d", "e"}) EXPECT_EQ(Visit(letter), round == 0 ? 0U : 1U);
  }
  EXPECT_EQ(cache().counters().evicted_blocks, 0U);
}

TEST_F(PrefixCacheTest, AColdCacheWarmsUpBlockByBlock) {
  EXPECT_EQ(Cached("abcd"), 0U);
  EXPECT_EQ(Visit("ab"), 0U);
  EXPECT_EQ(Visit("abc"), 2U);
  EXPECT_EQ(Visit("abcd"), 3U);
  EXPECT_EQ(Visit("abcd"), 4U);
  EXPECT_EQ(cache().ready_count(), 4U);
}

// Equal prompts under the roots of two tenants share nothing: neither blocks, nor tails, nor what one evicts.
TEST_F(PrefixCacheTest, TenantsAreApart) {
  constexpr BlockHash kOne{1, 1};
  constexpr BlockHash kOther{2, 2};
  EXPECT_EQ(Visit("abc", kOne), 0U);
  CacheUser other = User("abc", kOther);
  EXPECT_EQ(other.Match(cache()), 0U);
  EXPECT_FALSE(cache().FindTail(other.chain(), {}, 4).has_value());
  EXPECT_EQ(Visit("abc", kOther), 0U);
  EXPECT_EQ(cache().ready_count(), 6U);
  Make(3);
  EXPECT_EQ(Visit("abc", kOne), 0U);
  EXPECT_EQ(Visit("abc", kOther), 0U);
  EXPECT_TRUE(cache().WasEvicted(User("abc", kOne).hashes[0]));
  EXPECT_FALSE(cache().WasEvicted(User("abc", kOther).hashes[0]));
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

// Partial blocks: what a sequence leaves when it ends in the middle of a block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;
using testing_support::kLetterTokens;

class PrefixCachePartialTest : public testing_support::PrefixCacheFixture {
 protected:
  // A prompt whose last letter has only its first `token_count` tokens.
  CacheUser PartOf(std::string_view letters, std::uint32_t token_count, BlockHash root = {1, 1}) {
    CacheUser user = User(letters, root);
    user.tokens.resize((letters.size() - 1) * kLetterTokens + token_count);
    user.hashes.resize(letters.size() - 1);
    return user;
  }
  // Takes the user's blocks, and one for the rest of its tokens.
  void Fill(CacheUser& user) {
    user.Use(cache());
    user.blocks.push_back(cache().Allocate(user.group).value());
  }
  // The user releases its blocks; the last one is partly filled.
  void Leave(CacheUser& user, const RequestUse& use = {}, const RequestRetention& retention = {}) {
    const auto token_count = static_cast<std::uint32_t>(user.tokens.size() % kLetterTokens);
    cache().StorePartial(user.chain(), user.blocks, token_count, user.group);
    user.Release(cache(), use, retention);
  }
  void VisitPart(std::string_view letters, std::uint32_t token_count, BlockHash root = {1, 1}) {
    CacheUser user = PartOf(letters, token_count, root);
    Fill(user);
    Leave(user);
  }

  // The tail after the cached blocks of a prompt.
  std::optional<TailMatch> Tail(std::string_view letters, BlockHash root = {1, 1}) {
    CacheUser user = User(letters, root);
    for (const BlockRef ref : Refs(letters, root)) user.blocks.push_back(ref.block);
    return cache().FindTail(user.chain(), user.blocks, kLetterTokens);
  }
  std::uint32_t TailTokens(std::string_view letters, BlockHash root = {1, 1}) {
    const std::optional<TailMatch> tail = Tail(letters, root);
    return tail ? tail->token_count : 0;
  }
};

TEST_F(PrefixCachePartialTest, IsFoundAsATail) {
  VisitPart("ab", 3);
  EXPECT_EQ(TailTokens("ab"), 3U);
  EXPECT_EQ(TailTokens("ac"), 0U);
  EXPECT_EQ(TailTokens("b"), 0U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsFoundAsATailForWhatItSharesAlone) {
  VisitPart("ab", 3);
  CacheUser user = PartOf("ab", 2);
  user.Match(cache());
  EXPECT_EQ(cache().FindTail(user.chain(), user.blocks, kLetterTokens)->token_count, 2U);
  EXPECT_EQ(cache().FindTail(user.chain(), user.blocks, 1)->token_count, 1U);
  user.Release(cache());
}

TEST_F(PrefixCachePartialTest, OfAFirstBlockIsFoundInItsScopeAlone) {
  VisitPart("a", 2, {1, 1});
  EXPECT_EQ(TailTokens("a", {1, 1}), 2U);
  EXPECT_EQ(TailTokens("a", {2, 2}), 0U);
  VisitPart("a", 3, {2, 2});
  EXPECT_EQ(TailTokens("a", {1, 1}), 2U);
  EXPECT_EQ(TailTokens("a", {2, 2}), 3U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, OfTwoTheLongerIsKept) {
  VisitPart("ab", 1);
  VisitPart("ab", 3);
  EXPECT_EQ(TailTokens("ab"), 3U);
  EXPECT_EQ(pool().idle_count(), 2U);
  EXPECT_EQ(cache().counters().evicted_blocks, 1U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, TwoThatPartAreBothKept) {
  VisitPart("ab", 3);
  CacheUser other = PartOf("ab", 3);
  other.tokens.back() += 5000;
  Fill(other);
  Leave(other);
  EXPECT_EQ(pool().idle_count(), 3U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsNotStoredIfALongerOrAnEqualOneOrAFullBlockHoldsIt) {
  VisitPart("ab", 3);
  VisitPart("ab", 3);
  VisitPart("ab", 1);
  EXPECT_EQ(pool().idle_count(), 2U);
  EXPECT_EQ(TailTokens("ab"), 3U);
  Visit("ac");
  VisitPart("ac", 2);
  EXPECT_EQ(pool().idle_count(), 3U);
  EXPECT_EQ(cache().counters().evicted_blocks, 0U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, GoesWhenAFullBlockBeginsWithIt) {
  VisitPart("ab", 3);
  Visit("ab");
  EXPECT_EQ(pool().idle_count(), 2U);
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, StaysWhenAFullBlockPartsFromIt) {
  VisitPart("ab", 3);
  Visit("ac");
  EXPECT_EQ(pool().idle_count(), 3U);
  EXPECT_EQ(TailTokens("ab"), 3U);
}

TEST_F(PrefixCachePartialTest, ThatSomebodyHoldsStaysWhenAFullBlockBeginsWithItAndIsEvictedInItsTurn) {
  VisitPart("ab", 3);
  CacheUser holder = PartOf("ab", 3);
  holder.Match(cache());
  const BlockRef tail = Tail("ab")->block;
  cache().Acquire(tail);
  holder.blocks.push_back(tail.block);
  Visit("ab");
  ExpectSound({&holder});
  EXPECT_EQ(pool().references(tail.block), 1U);
  holder.Release(cache());
  EXPECT_EQ(pool().idle_count(), 3U);
  EXPECT_EQ(Take(6), "b");
  EXPECT_EQ(Take(1), "");  // the partial one
  EXPECT_EQ(Take(1), "a");
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsNeverMatchedAsABlock) {
  VisitPart("ab", 3);
  EXPECT_EQ(Cached("ab"), 1U);
  const CacheUser user = User("ab");
  const std::vector<BlockId> blocks = {Refs("a")[0].block};
  EXPECT_FALSE(cache().Find(user.chain(), 1, blocks).has_value());
  EXPECT_EQ(Visit("ab"), 1U);
  EXPECT_EQ(cache().counters().verification_misses, 0U);
}

TEST_F(PrefixCachePartialTest, NobodyHearsOfItStoredOrEvicted) {
  Visit("a");
  (void)cache().TakeEvents();
  const BlockHash digest = cache().digest();
  VisitPart("x", 2);
  VisitPart("ab", 3);
  EXPECT_TRUE(cache().TakeEvents().empty());
  EXPECT_EQ(cache().digest(), digest);
  EXPECT_EQ(cache().ready_count(), 1U);
  const auto runs = Snapshot(cache().tree());
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].hashes, Hashes("a"));
  EXPECT_EQ(Take(7), "");
  EXPECT_EQ(cache().counters().evicted_blocks, 2U);
  EXPECT_EQ(cache().digest(), digest);
  EXPECT_EQ(TailTokens("ab") + TailTokens("x"), 0U);
}

TEST_F(PrefixCachePartialTest, StandsInNoRunOfTheSnapshotWhereverItsSiblingsAre) {
  VisitPart("ab", 3);
  Visit("abc");
  VisitPart("abd", 1);
  VisitPart("abb", 1);
  VisitPart("aa", 2);
  std::vector<BlockHash> seen;
  for (const wire::StoredRun& run : Snapshot(cache().tree()))
    seen.insert(seen.end(), run.hashes.begin(), run.hashes.end());
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(Hashes("abc")));
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsEvictedBeforeItsParent) {
  VisitPart("ab", 3);
  Visit("a");  // the parent alone is used again
  Visit("x");
  EXPECT_EQ(Take(6), "");
  EXPECT_EQ(TailTokens("ab"), 0U);
  EXPECT_EQ(Take(2), "ax");
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsEvictedFromBehindAPinnedParent) {
  VisitPart("ab", 3);
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 1U);
  EXPECT_EQ(cache().available_count(), 7U);
  EXPECT_EQ(Take(8), "");
  EXPECT_EQ(Cached("a"), 1U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, IsNotEvictedWhileSomebodyHoldsIt) {
  VisitPart("x", 3);
  const BlockRef tail = Tail("x")->block;
  EXPECT_TRUE(cache().IsAvailable(tail));
  cache().Acquire(tail);
  EXPECT_FALSE(cache().IsAvailable(tail));
  EXPECT_EQ(cache().available_count(), 7U);
  EXPECT_EQ(Take(8), "");
  EXPECT_EQ(TailTokens("x"), 3U);
  cache().Release(tail.block, {});
  EXPECT_EQ(cache().available_count(), 1U);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, ThatSomebodyWaitsForIsEvictedAfterAllOthers) {
  VisitPart("x", 3);
  Visit("ab");
  const BlockRef tail = Tail("x")->block;
  cache().Want(tail);
  EXPECT_EQ(Take(7), "ba");
  EXPECT_EQ(TailTokens("x"), 3U);
  EXPECT_EQ(Take(1), "");
  EXPECT_EQ(TailTokens("x"), 0U);
  cache().Unwant(tail);
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, ThatSomebodyWaitsForGoesAllTheSameWhenAFullBlockBeginsWithIt) {
  VisitPart("x", 3);
  const BlockRef tail = Tail("x")->block;
  cache().Want(tail);
  Visit("x");
  EXPECT_EQ(pool().idle_count(), 1U);
  cache().Unwant(tail);
  EXPECT_EQ(Take(8), "x");
  ExpectSound();
}

TEST_F(PrefixCachePartialTest, OfAPromptThatEndsWithinItIsRetainedLikeThePrompt) {
  CacheUser user = PartOf("ab", 2);
  Fill(user);
  const BlockRetention retention{.priority = 90, .end = After(std::chrono::seconds(60))};
  Leave(user, {.prompt_token_count = 6}, {.prompt = retention, .decode = {}});
  Visit("xy");
  EXPECT_EQ(Take(6), "yx");
  EXPECT_EQ(TailTokens("ab"), 2U);
  EXPECT_EQ(Take(2), "a");
}

TEST_F(PrefixCachePartialTest, ThatHoldsOutputIsRetainedLikeIt) {
  CacheUser user = PartOf("ab", 2);
  Fill(user);
  const BlockRetention retention{.priority = 90, .end = After(std::chrono::seconds(60))};
  Leave(user, {.prompt_token_count = 5}, {.prompt = retention, .decode = {}});
  Visit("xy");
  EXPECT_EQ(Take(5), "");
  EXPECT_EQ(TailTokens("ab"), 0U);
  EXPECT_EQ(Take(3), "yxa");
}

TEST_F(PrefixCachePartialTest, YoungerThanTheHoldGoesAfterOlderOnes) {
  Make(3, {.min_hold = std::chrono::seconds(10)});
  Visit("x");
  Pass(std::chrono::seconds(20));
  VisitPart("y", 2);
  EXPECT_EQ(Take(2), "x");
  EXPECT_EQ(TailTokens("y"), 2U);
}

TEST_F(PrefixCachePartialTest, CountsAsABlockOfItsGroup) {
  Make(8, {.group_shares = {0.5}});
  CacheUser user = PartOf("ab", 2);
  user.group = EvictionGroup(1);
  Fill(user);
  Leave(user);
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(1)), 2U);
  EXPECT_EQ(Take(7), "");
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(1)), 1U);
  ExpectSound();
}

using PrefixCachePartialDeathTest = PrefixCachePartialTest;

TEST_F(PrefixCachePartialDeathTest, StopsWhenAnotherHoldsTheBlockToBeStored) {
  CacheUser user = PartOf("ab", 2);
  Fill(user);
  cache().Share(user.blocks.back());
  EXPECT_DEATH(cache().StorePartial(user.chain(), user.blocks, 2, user.group), "is not the caller's");
}

}  // namespace
}  // namespace roost::worker

// Idle blocks that stay and those that are evicted: retention, wants, pins, shares. (Holds: prefix_cache_hold_test.cc.
// The plain order: prefix_cache_test.cc. Everything against a naive cache: prefix_cache_model_test.cc.)
#include <gtest/gtest.h>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing_support::CacheUser;

class CacheKeepingTest : public testing_support::PrefixCacheFixture {
 protected:
  // A request whose first block is its prompt and the others its output.
  void VisitWith(std::string_view letters, const BlockRetention& prompt, const BlockRetention& decode) {
    CacheUser user = User(letters);
    (void)user.Use(cache());
    user.Release(cache(), {.prompt_token_count = testing_support::kLetterTokens}, {.prompt = prompt, .decode = decode});
  }
  void Want(std::string_view letters) {
    for (const BlockRef ref : Refs(letters)) cache().Want(ref);
  }
};

// ---- retention ----

TEST_F(CacheKeepingTest, LowPrioritiesGoBeforeDefaultOnesAndHighOnesAfter) {
  Make(4);
  VisitRetained("a", 50, hours(1));
  VisitRetained("b", 20, hours(1));
  Visit("c");
  VisitRetained("d", 80, hours(1));
  EXPECT_EQ(Take(4), "bcad");
}

TEST_F(CacheKeepingTest, OfEqualPrioritiesTheOneIdleForLongestGoes) {
  Make(4);
  VisitRetained("a", 50, hours(1));
  VisitRetained("b", 50, hours(1));
  VisitRetained("c", 50, hours(1));
  VisitRetained("a", 50, hours(1));
  EXPECT_EQ(Take(4), "bca");
}

// Both parents are first in line while they have children; this must not reverse their order.
TEST_F(CacheKeepingTest, ParentsGoInTheirOrderWhenTheirChildrenHaveGone) {
  Make(5);
  VisitRetained("x", 95, hours(1));
  VisitWith("ab", {90, After(hours(1))}, {95, After(seconds(10))});
  VisitWith("cd", {90, After(hours(1))}, {95, After(seconds(10))});
  EXPECT_EQ(Take(1), "x");
  Pass(seconds(10));
  EXPECT_EQ(Take(4), "bdac");
}

TEST_F(CacheKeepingTest, PromptAndOutputAreRetainedApart) {
  Make(3);
  VisitWith("ab", {90, After(hours(1))}, {});
  Visit("c");
  EXPECT_EQ(Take(3), "bca");
}

TEST_F(CacheKeepingTest, AfterItsEndARetainedBlockIsOneLikeOthers) {
  Make(3);
  VisitRetained("a", 90, seconds(10));
  VisitRetained("b", 10, seconds(10));
  Pass(seconds(10));
  Visit("c");
  EXPECT_EQ(Take(3), "abc");
}

TEST_F(CacheKeepingTest, BeforeItsEndARetentionHolds) {
  Make(2);
  VisitRetained("a", 90, seconds(10));
  Visit("b");
  Pass(seconds(10) - std::chrono::milliseconds(1));
  EXPECT_EQ(Take(2), "ba");
}

TEST_F(CacheKeepingTest, ARetentionThatEndsWhileItsBlockIsInUseIsOver) {
  Make(2);
  VisitRetained("a", 90, seconds(10));
  CacheUser user = User("a");
  user.Match(cache());
  Pass(seconds(10));
  user.Release(cache());
  Visit("b");
  EXPECT_EQ(Take(2), "ab");
}

TEST_F(CacheKeepingTest, OfTwoRetentionsTheHigherPriorityAndTheLaterEndHold) {
  Make(2);
  VisitRetained("a", 90, seconds(10));
  VisitRetained("a", 50, seconds(20));
  VisitRetained("b", 80, hours(1));
  Pass(seconds(10));
  EXPECT_EQ(Take(1), "b");
  GiveBack();
  Pass(seconds(10));
  VisitRetained("b", 40, hours(1));
  EXPECT_EQ(Take(1), "a");
}

TEST_F(CacheKeepingTest, ARetentionOfTheDefaultPriorityEndsWithoutATrace) {
  Make(2);
  VisitRetained("a", kDefaultRetentionPriority, seconds(10));
  Visit("b");
  Pass(seconds(10));
  EXPECT_EQ(Take(2), "ab");
}

TEST_F(CacheKeepingTest, AParentIsNeverEvictedBeforeItsChildWhateverThePriorities) {
  Make(3);
  VisitWith("ab", {0, After(hours(1))}, {100, After(hours(1))});
  Visit("c");
  EXPECT_EQ(Take(3), "cba");
}

TEST_F(CacheKeepingTest, APriorityOutOfRangeStopsTheProcess) {
  EXPECT_DEATH(VisitRetained("a", 101, hours(1)), "priority 101");
}

// ---- wanted blocks ----

TEST_F(CacheKeepingTest, WantedBlocksGoLast) {
  Make(3);
  Visit("a");
  Visit("b");
  VisitRetained("c", kMaxRetentionPriority, hours(1));
  Want("a");
  EXPECT_EQ(Take(3), "bca");
}

TEST_F(CacheKeepingTest, ABlockIsWantedUntilTheLastOneTakesItBack) {
  Make(2);
  Visit("a");
  const BlockRef ref = Refs("a")[0];
  cache().Want(ref);
  cache().Want(ref);
  Visit("b");
  cache().Unwant(ref);
  EXPECT_EQ(Take(1), "b");
  GiveBack();
  Visit("b");
  cache().Unwant(ref);
  Visit("b");
  EXPECT_EQ(Take(1), "a");
}

TEST_F(CacheKeepingTest, ABlockInUseCanBeWanted) {
  Make(2);
  CacheUser user = User("a");
  user.Use(cache());
  Want("a");
  user.Release(cache());
  Visit("b");
  EXPECT_EQ(Take(2), "ba");
}

TEST_F(CacheKeepingTest, AWantOfABlockThatWasEvictedIsTakenBackWithoutHarm) {
  Make(1);
  Visit("a");
  const BlockRef ref = Refs("a")[0];
  cache().Want(ref);
  EXPECT_EQ(Take(1), "a");
  GiveBack();
  Visit("b");
  cache().Unwant(ref);
  EXPECT_EQ(Take(1), "b");
}

TEST_F(CacheKeepingTest, AStaleRefCanNotBeWanted) {
  Make(1);
  Visit("a");
  const BlockRef ref = Refs("a")[0];
  Take(1);
  EXPECT_DEATH(cache().Want(ref), "is stale");
}

// ---- pins ----

TEST_F(CacheKeepingTest, APinnedPrefixIsNeverEvicted) {
  Visit("abc");
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 2U);
  EXPECT_EQ(cache().available_count(), 6U);
  EXPECT_FALSE(cache().IsAvailable(Refs("ab")[1]));
  EXPECT_EQ(Take(8), "c");
  EXPECT_EQ(cache().available_count(), 0U);
  EXPECT_EQ(Cached("abc"), 2U);
  ExpectSound();
}

TEST_F(CacheKeepingTest, BlocksCanBePinnedBeforeTheyAreComputed) {
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  Visit("abc");
  EXPECT_EQ(cache().claims().pinned_count(), 2U);
  EXPECT_EQ(Take(8), "c");
  ExpectSound();
}

TEST_F(CacheKeepingTest, OverTheLimitLaterBlocksAreNotPinnedAndCounted) {
  Make(8, {.pinned_share_limit = 0.25});
  Visit("abcd");
  cache().claims().Pin(Hashes("abcd"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 2U);
  EXPECT_EQ(cache().counters().refused_pins, 2U);
  EXPECT_EQ(Take(8), "dc");
  ExpectSound();
}

TEST_F(CacheKeepingTest, TellsWhatPinsKeepAwaitAndRefuse) {
  Make(8, {.pinned_share_limit = 0.5});
  Visit("ab");
  const auto expect_pins = [this](std::uint32_t kept, std::uint32_t awaited, std::uint32_t refused) {
    const PinCounts counts = cache().claims().PinsOf(Hashes("abcdef"));
    EXPECT_EQ(counts.kept, kept);
    EXPECT_EQ(counts.awaited, awaited);
    EXPECT_EQ(counts.refused, refused);
  };
  expect_pins(0, 0, 6);
  cache().claims().Pin(Hashes("abcdef"), std::nullopt);
  expect_pins(2, 2, 2);
  Visit("abcdef");
  expect_pins(4, 0, 2);
  cache().claims().Unpin(Hashes("ab"));  // c and d keep them
  expect_pins(4, 0, 2);
  cache().claims().Unpin(Hashes("abcd"));
  expect_pins(0, 0, 6);
}

TEST_F(CacheKeepingTest, FutureBlocksCountTowardsTheLimitAtOnce) {
  Make(8, {.pinned_share_limit = 0.25});
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  Visit("c");
  cache().claims().Pin(Hashes("c"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  EXPECT_EQ(cache().counters().refused_pins, 1U);
}

TEST_F(CacheKeepingTest, APinEnds) {
  Make(4);
  Visit("ab");
  cache().claims().Pin(Hashes("ab"), After(seconds(10)));
  Visit("cd");
  Pass(seconds(9));
  EXPECT_EQ(cache().claims().pinned_count(), 2U);
  Pass(seconds(1));
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  EXPECT_EQ(Take(4), "dcba");
}

TEST_F(CacheKeepingTest, ASecondPinSetsTheEndAnew) {
  Visit("a");
  cache().claims().Pin(Hashes("a"), After(seconds(10)));
  cache().claims().Pin(Hashes("a"), std::nullopt);
  Pass(hours(1));
  EXPECT_EQ(cache().claims().pinned_count(), 1U);
  cache().claims().Pin(Hashes("a"), After(seconds(10)));
  Pass(seconds(10));
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
}

TEST_F(CacheKeepingTest, AnUnpinnedBlockIsOneLikeOthers) {
  Make(4);
  Visit("ab");
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  Visit("c");
  cache().claims().Unpin(Hashes("ab"));
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  EXPECT_EQ(Take(4), "cba");
  ExpectSound();
}

TEST_F(CacheKeepingTest, UnpinningWhatIsNotPinnedDoesNothing) {
  Visit("ab");
  cache().claims().Pin(Hashes("a"), std::nullopt);
  cache().claims().Unpin(Hashes("xy"));
  cache().claims().Unpin({});
  EXPECT_EQ(cache().claims().pinned_count(), 1U);
  ExpectSound();
}

TEST_F(CacheKeepingTest, ABlockStaysPinnedWhileOneBehindItIs) {
  Visit("abc");
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  cache().claims().Unpin(Hashes("ab"));
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  ExpectSound();
  const std::vector<BlockHash> hashes = Hashes("abc");
  cache().claims().Unpin({&hashes[2], 1});
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  ExpectSound();
}

TEST_F(CacheKeepingTest, BlocksPinnedForThoseBehindThemCountTowardsTheLimit) {
  Visit("abc");
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  cache().claims().Unpin(Hashes("ab"));
  Visit("xyz");
  cache().claims().Pin(Hashes("xyz"), std::nullopt);  // the limit is 4 of 8
  EXPECT_EQ(cache().claims().pinned_count(), 4U);
  EXPECT_EQ(cache().counters().refused_pins, 2U);
  ExpectSound();
}

TEST_F(CacheKeepingTest, ABlockPinnedForTheOneBehindItCanBePinnedAtTheLimit) {
  Visit("abcd");
  cache().claims().Pin(Hashes("abcd"), std::nullopt);
  cache().claims().Unpin(Hashes("abc"));
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  EXPECT_EQ(cache().counters().refused_pins, 0U);
  const std::vector<BlockHash> hashes = Hashes("abcd");
  cache().claims().Unpin({&hashes[3], 1});
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  ExpectSound();
}

TEST_F(CacheKeepingTest, APinHoldsAlsoWhenThoseBeforeItEndedBeforeTheBlocksWereComputed) {
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  cache().claims().Pin(Hashes("ab"), After(seconds(10)));
  Pass(seconds(10));
  Visit("abcd");
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  EXPECT_EQ(Take(8), "d");
  ExpectSound();
}

TEST_F(CacheKeepingTest, APinIsRefusedWhenThereIsNoRoomForTheBlocksBeforeIt) {
  Make(8, {.pinned_share_limit = 0.25});
  Visit("abcd");
  const std::vector<BlockHash> hashes = Hashes("abcd");
  cache().claims().Pin({&hashes[2], 2}, std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  EXPECT_EQ(cache().counters().refused_pins, 2U);
  EXPECT_EQ(Take(8), "dcba");
  ExpectSound();
}

// It is refused even if there is space by now, so that one lookup finds a refusal in front.
TEST_F(CacheKeepingTest, APinBehindOneThatWasRefusedIsRefused) {
  Make(16);
  cache().claims().Pin(Hashes("stuvwx"), std::nullopt);
  const std::vector<BlockHash> hashes = Hashes("abcd");
  cache().claims().Pin({&hashes[2], 2}, std::nullopt);
  Visit("abc");  // c needs a and b, and 8 of 8 pins are taken
  cache().claims().Unpin(Hashes("stuvwx"));
  Visit("abcd");
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  EXPECT_EQ(cache().counters().refused_pins, 2U);
  cache().claims().Pin(hashes, std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 4U);
  ExpectSound();
}

// ---- shares ----

TEST_F(CacheKeepingTest, AGroupOverItsShareLosesItsOwnBlocksFirst) {
  Make(4, {.group_shares = {0.25}});
  VisitAs(0, "ab");
  VisitAs(1, "x");
  VisitAs(1, "y");
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(1)), 2U);
  EXPECT_EQ(Take(1, 1), "x");
}

TEST_F(CacheKeepingTest, WhatAGroupDoesNotUseOthersMay) {
  Make(4, {.group_shares = {0.5}});
  VisitAs(0, "abcd");
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(0)), 4U);
  VisitAs(0, "e");
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(0)), 4U);
}

TEST_F(CacheKeepingTest, BorrowedBlocksComeBack) {
  Make(4, {.group_shares = {0.5}});
  VisitAs(0, "abcd");
  VisitAs(1, "xy");
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(0)), 2U);
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(1)), 2U);
  VisitAs(1, "z");  // it has its full share: its own block goes
  EXPECT_EQ(cache().claims().ready_count_of(EvictionGroup(0)), 2U);
  EXPECT_EQ(Cached("ab", {2, 0}), 2U);
  EXPECT_EQ(Cached("xy", {2, 1}), 1U);
}

TEST_F(CacheKeepingTest, TheGroupFurthestOverItsShareGives) {
  Make(8, {.group_shares = {0.5, 0.125}});
  VisitAs(0, "abcd");  // share: 3
  VisitAs(2, "xyz");   // share: 1
  VisitAs(1, "u");
  EXPECT_EQ(Take(1, 1), "z");
}

TEST_F(CacheKeepingTest, AGroupWithinItsShareGivesAfterAllThatAreOverTheirs) {
  Make(8, {.group_shares = {0.5, 0.25}});
  CacheUser user = User("wxyz");
  user.group = EvictionGroup(2);
  user.Use(cache());  // two over its share, and all in use
  VisitAs(1, "a");
  VisitAs(0, "bcd");  // one over its share
  EXPECT_EQ(Take(1, 1), "d");
  EXPECT_EQ(Take(1, 1), "a");  // no group over its share has an idle block
  user.Release(cache());
}

TEST_F(CacheKeepingTest, OthersGiveWhenAGroupWithinItsShareHasNothing) {
  Make(4, {.group_shares = {0.25, 0.25}});
  VisitAs(0, "ab");
  VisitAs(1, "c");
  EXPECT_EQ(Take(2, 2), "b");
}

TEST_F(CacheKeepingTest, WantedBlocksOfAGroupOutliveUnwantedOnesOfOthers) {
  Make(4, {.group_shares = {0.25}});
  VisitAs(1, "x");
  VisitAs(1, "y");
  for (const std::string_view letter : {"x", "y"}) cache().Want(Refs(letter, {2, 1})[0]);
  VisitAs(0, "ab");
  EXPECT_EQ(Take(4, 1), "baxy");
}

}  // namespace
}  // namespace roost::worker

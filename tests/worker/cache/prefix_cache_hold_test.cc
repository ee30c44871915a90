// The minimum hold: which idle blocks are held, for how long, and in which order they are evicted when they must be.
// (The effect on requests: hold_test.cc of the scheduler.)
#include <gtest/gtest.h>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_eraser.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing_support::CacheUser;

class CacheHoldTest : public testing_support::PrefixCacheFixture {
 protected:
  // Blocks are young for ten seconds, and up to this share of the cache is held.
  void MakeHolding(std::uint32_t block_count, double held_share_limit, std::vector<double> group_shares = {}) {
    Make(block_count, {.min_hold = seconds(10), .held_share_limit = held_share_limit, .group_shares = group_shares});
  }
};

// ---- which blocks are held ----

TEST_F(CacheHoldTest, AHeldBlockIsNotEvicted) {
  MakeHolding(3, 1);
  Visit("ab");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  EXPECT_EQ(cache().available_count(), 1U);
  EXPECT_EQ(Take(3), "");
  EXPECT_FALSE(cache().EvictOne());
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound();
}

TEST_F(CacheHoldTest, WhoCameFirstIsHeldAndWhatComesBeyondTheLimitGoes) {
  MakeHolding(4, 0.5);
  Visit("ab");
  Visit("c");
  Visit("d");
  Visit("e");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  EXPECT_EQ(Take(4), "de");
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound();
}

TEST_F(CacheHoldTest, OfAPrefixThatIsTooLongTheFrontIsHeld) {
  MakeHolding(8, 0.5);
  Visit("abcdef");
  EXPECT_EQ(cache().claims().held_count(), 4U);
  EXPECT_EQ(Take(8), "fe");
  EXPECT_EQ(Cached("abcdef"), 4U);
  ExpectSound();
}

TEST_F(CacheHoldTest, WithoutRoomForAllBeforeItABlockIsNotHeld) {
  MakeHolding(8, 0.5);
  Visit("abcd");
  Pass(seconds(10));
  Visit("abcde");
  EXPECT_EQ(cache().claims().held_count(), 0U);
  EXPECT_EQ(cache().available_count(), 8U);
  ExpectSound();
}

TEST_F(CacheHoldTest, TheLimitIsAPartOfWhatPinsLeave) {
  MakeHolding(8, 0.5);
  Visit("ab");
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(cache().claims().held_count(), 0U);
  Visit("cdef");
  EXPECT_EQ(cache().claims().held_count(), 3U);
  EXPECT_EQ(cache().available_count(), 3U);
  ExpectSound();
}

// The first group has 2 of 8 blocks, and may hold 1; the rest has 6, and may hold 3.
TEST_F(CacheHoldTest, AGroupHoldsNoMoreThanThatPartOfItsShare) {
  MakeHolding(8, 0.5, {0.25});
  VisitAs(1, "xyz");
  EXPECT_EQ(cache().claims().held_count(), 1U);
  VisitAs(0, "abcd");
  EXPECT_EQ(cache().claims().held_count(), 4U);
  EXPECT_EQ(Take(8), "zdy");
  ExpectSound();
}

TEST_F(CacheHoldTest, ABlockThatFoundNoRoomIsHeldWhenItIsUsedAgainAndThereIsSome) {
  MakeHolding(4, 0.25);
  Visit("a");
  Pass(seconds(6));
  Visit("b");
  EXPECT_TRUE(cache().claims().IsHeld(Refs("a")[0].block.value()));
  EXPECT_FALSE(cache().claims().IsHeld(Refs("b")[0].block.value()));
  Pass(seconds(4));
  EXPECT_EQ(cache().claims().held_count(), 0U);
  Visit("b");
  EXPECT_TRUE(cache().claims().IsHeld(Refs("b")[0].block.value()));
  ExpectSound();
}

TEST_F(CacheHoldTest, ABlockInUseIsNotHeldAndCountsForNothing) {
  MakeHolding(4, 0.5);
  CacheUser user = User("ab");
  (void)user.Use(cache());
  EXPECT_EQ(cache().claims().held_count(), 0U);
  Visit("cd");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  ExpectSound({&user});
  user.Release(cache());
  EXPECT_EQ(cache().claims().held_count(), 2U);
  EXPECT_EQ(Cached("cd"), 2U);
  ExpectSound();
}

TEST_F(CacheHoldTest, AHeldBlockKeepsItsPlaceWhileItIsInUse) {
  MakeHolding(4, 0.5);
  Visit("ab");
  CacheUser user = User("ab");
  user.Match(cache());
  Visit("c");
  Visit("d");
  EXPECT_EQ(cache().claims().held_count(), 0U);
  ExpectSound({&user});
  user.Release(cache());
  EXPECT_EQ(cache().claims().held_count(), 2U);
  ExpectSound();
  EXPECT_EQ(Take(4), "cd");
}

TEST_F(CacheHoldTest, AHoldThatEndsWhileItsBlockIsInUseLeavesItsPlaceToOthers) {
  MakeHolding(4, 0.5);
  Visit("ab");
  CacheUser user = User("ab");
  user.Match(cache());
  Pass(seconds(10));
  Visit("cd");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  user.Release(cache());
  EXPECT_EQ(Take(4), "ba");
  ExpectSound();
}

TEST_F(CacheHoldTest, APinThatComesWhileAHeldBlockIsInUseTakesItsPlace) {
  MakeHolding(4, 1);
  Visit("ab");
  CacheUser user = User("ab");
  user.Match(cache());
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  user.Release(cache());
  EXPECT_EQ(cache().claims().held_count(), 0U);
  Visit("cd");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  ExpectSound();
}

TEST_F(CacheHoldTest, APartialBlockIsHeldLikeAnother) {
  MakeHolding(4, 1);
  CacheUser user = User("ab");
  user.tokens.resize(user.tokens.size() - 1);
  user.hashes.resize(1);
  (void)user.Use(cache());
  user.blocks.push_back(cache().Allocate().value());
  cache().StorePartial(user.chain(), user.blocks, testing_support::kLetterTokens - 1, user.group);
  user.Release(cache());
  EXPECT_EQ(cache().claims().held_count(), 2U);
  Visit("ab");  // makes the partial block useless
  EXPECT_EQ(cache().claims().held_count(), 2U);
  EXPECT_EQ(pool().free_count(), 2U);
  ExpectSound();
}

// ---- how long ----

TEST_F(CacheHoldTest, AfterItsHoldABlockIsOneLikeOthers) {
  MakeHolding(2, 1);
  Visit("a");
  Pass(seconds(9));
  Visit("b");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  Pass(seconds(1));
  EXPECT_EQ(cache().claims().held_count(), 1U);
  EXPECT_EQ(Take(2), "a");
  Pass(seconds(9));
  EXPECT_EQ(Take(1), "b");
  ExpectSound();
}

TEST_F(CacheHoldTest, AHitDoesNotProlongTheHold) {
  MakeHolding(2, 1);
  Visit("a");
  Pass(seconds(9));
  Visit("a");
  Pass(seconds(1));
  EXPECT_EQ(cache().claims().held_count(), 0U);
}

TEST_F(CacheHoldTest, BlocksBeforeAYoungOneAreHeldAsLongAsItIs) {
  MakeHolding(4, 1);
  Visit("ab");
  Pass(seconds(6));
  Visit("abc");
  Pass(seconds(4));  // a and b are old
  EXPECT_EQ(cache().claims().held_count(), 3U);
  EXPECT_EQ(cache().available_count(), 1U);
  ExpectSound();
  Pass(seconds(6));
  EXPECT_EQ(cache().claims().held_count(), 0U);
  ExpectSound();
  EXPECT_EQ(Take(4), "cba");
}

TEST_F(CacheHoldTest, BlocksBeforeAYoungOneAreFreeOfItsHoldOnceItIsInUse) {
  MakeHolding(4, 1);
  Visit("ab");
  Pass(seconds(6));
  Visit("abc");
  Pass(seconds(4));
  CacheUser user = User("abc");
  user.Match(cache());
  EXPECT_EQ(cache().claims().held_count(), 0U);
  ExpectSound({&user});
  Pass(seconds(6));
  user.Release(cache());
  EXPECT_EQ(cache().claims().held_count(), 0U);
  ExpectSound();
}

TEST_F(CacheHoldTest, OldBlocksBeforeAHeldOneThatIsTakenAreHeldNoMore) {
  MakeHolding(3, 1);
  Visit("ab");
  Pass(seconds(6));
  Visit("abc");
  Pass(seconds(4));
  EXPECT_EQ(TakeHeld(1), "c");
  EXPECT_EQ(cache().claims().held_count(), 0U);
  ExpectSound();
  EXPECT_EQ(Take(2), "ba");
}

// ---- which held block goes first ----

TEST_F(CacheHoldTest, OfHeldBlocksTheOldestGoesFirstHoweverLateItWasUsed) {
  MakeHolding(3, 1);
  Visit("a");
  Visit("b");
  Visit("c");
  Visit("b");
  Visit("a");
  EXPECT_EQ(TakeHeld(3), "abc");
}

TEST_F(CacheHoldTest, AHeldPrefixGoesBackToFront) {
  MakeHolding(5, 1);
  Visit("ab");
  Visit("c");
  Visit("abd");
  EXPECT_EQ(TakeHeld(5), "cdba");
  EXPECT_FALSE(cache().EvictHeld());
}

TEST_F(CacheHoldTest, HeldBlocksOfAGroupOverItsShareGoFirst) {
  MakeHolding(4, 1, {0.25});
  VisitAs(0, "ab");
  VisitAs(1, "x");
  VisitAs(1, "y");
  EXPECT_EQ(TakeHeld(1, 1), "x");
  EXPECT_EQ(TakeHeld(1, 0), "b");
}

TEST_F(CacheHoldTest, EvenAWantedBlockGoesBeforeAHeldOne) {
  MakeHolding(3, 0.4);
  Visit("a");
  Visit("b");
  VisitRetained("c", kMaxRetentionPriority, hours(1));
  cache().Want(Refs("b")[0]);
  EXPECT_EQ(Take(3), "cb");
  EXPECT_EQ(TakeHeld(1), "a");
}

// ---- together with retention, wants and pins ----

TEST_F(CacheHoldTest, TheHoldDoesNotRaiseOrProlongARetention) {
  MakeHolding(2, 1);
  Visit("a");
  VisitRetained("b", 10, hours(1));
  Pass(seconds(10));
  EXPECT_EQ(Take(2), "ba");
}

TEST_F(CacheHoldTest, ARetentionDoesNotShortenTheHold) {
  MakeHolding(2, 0.5);
  VisitRetained("a", 10, seconds(1));
  VisitRetained("b", 90, hours(1));
  Pass(seconds(2));
  EXPECT_EQ(Take(2), "b");
}

TEST_F(CacheHoldTest, AWantThatComesDuringTheHoldHoldsAfterIt) {
  MakeHolding(2, 1);
  Visit("a");
  Visit("b");
  cache().Want(Refs("a")[0]);
  EXPECT_EQ(cache().claims().held_count(), 2U);
  Pass(seconds(10));
  EXPECT_EQ(Take(2), "ba");
}

TEST_F(CacheHoldTest, AWantThatEndsDuringTheHoldLeavesItsBlockHeld) {
  MakeHolding(2, 1);
  Visit("a");
  const BlockRef ref = Refs("a")[0];
  cache().Want(ref);
  cache().Unwant(ref);
  EXPECT_TRUE(cache().claims().IsHeld(ref.block.value()));
  Pass(seconds(10));
  EXPECT_EQ(Take(2), "a");
}

TEST_F(CacheHoldTest, APinnedBlockIsNotHeldAndAnUnpinnedYoungOneIs) {
  MakeHolding(4, 1);
  Visit("abc");
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(cache().claims().held_count(), 1U);
  EXPECT_EQ(TakeHeld(4), "c");
  ExpectSound();
  cache().claims().Unpin(Hashes("ab"));
  EXPECT_EQ(cache().claims().held_count(), 2U);
  ExpectSound();
  EXPECT_EQ(TakeHeld(4), "ba");
}

TEST_F(CacheHoldTest, WhatIsDiscardedIsHeldNoMore) {
  MakeHolding(4, 1);
  Visit("abc");
  CacheEraser(cache()).Discard(User("abc").chain(), 1);
  EXPECT_EQ(cache().claims().held_count(), 1U);
  EXPECT_EQ(Cached("abc"), 1U);
  ExpectSound();
}

TEST_F(CacheHoldTest, WhatIsDiscardedWhileItIsInUseHasNoPlace) {
  MakeHolding(4, 0.5);
  Visit("ab");
  CacheUser user = User("ab");
  user.Match(cache());
  CacheEraser(cache()).Discard(user.chain(), 0);
  ExpectSound({&user});
  Visit("cd");
  EXPECT_EQ(cache().claims().held_count(), 2U);
  user.Release(cache());
  ExpectSound();
}

TEST_F(CacheHoldTest, ALimitOutsideOfTheWholeStopsTheProcess) {
  EXPECT_DEATH(MakeHolding(4, 1.5), "held_share_limit 1.5");
}

}  // namespace
}  // namespace roost::worker

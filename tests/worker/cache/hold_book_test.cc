#include "worker/cache/hold_book.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using std::chrono::milliseconds;

class HoldBookTest : public testing::Test {
 protected:
  HoldBook book_{4, milliseconds(10)};
};

TEST_F(HoldBookTest, ABlockIsYoungUntilTheHoldHasPassed) {
  std::vector<BlockId> grown;
  book_.Begin(BlockId(2), Instant(milliseconds(5)));
  book_.Begin(BlockId(0), Instant(milliseconds(6)));
  book_.Expire(Instant(milliseconds(14)), grown);
  EXPECT_TRUE(book_.IsYoung(BlockId(2)));
  book_.Expire(Instant(milliseconds(16)), grown);
  EXPECT_FALSE(book_.IsYoung(BlockId(2)));
  EXPECT_EQ(grown, (std::vector<BlockId>{BlockId(2), BlockId(0)}));
}

TEST_F(HoldBookTest, WithoutAHoldNothingIsEverYoung) {
  HoldBook book(4, milliseconds(0));
  book.Begin(BlockId(1), Instant());
  EXPECT_FALSE(book.IsYoung(BlockId(1)));
  EXPECT_FALSE(book.IsHeld(BlockId(1)));
  EXPECT_EQ(book.held_children(BlockId(1)), 0U);
}

TEST_F(HoldBookTest, WhoBeganFirstIsTheOldest) {
  book_.Begin(BlockId(3), Instant());
  book_.Begin(BlockId(1), Instant());
  EXPECT_LT(book_.AgeNumber(BlockId(3)), book_.AgeNumber(BlockId(1)));
}

TEST_F(HoldBookTest, HeldBlocksAreCountedAndTheChildrenOfEach) {
  for (const std::uint32_t block : {0U, 1U, 2U}) book_.Begin(BlockId(block), Instant());
  book_.Hold(BlockId(1), BlockId(0));
  book_.Hold(BlockId(2), BlockId(0));
  book_.Hold(BlockId(0), std::nullopt);
  EXPECT_EQ(book_.held_count(), 3U);
  EXPECT_EQ(book_.held_children(BlockId(0)), 2U);
  book_.LetGo(BlockId(1), BlockId(0));
  EXPECT_EQ(book_.held_count(), 2U);
  EXPECT_EQ(book_.held_children(BlockId(0)), 1U);
  EXPECT_FALSE(book_.IsHeld(BlockId(1)));
}

TEST_F(HoldBookTest, WhatIsForgottenIsNotYoung) {
  book_.Begin(BlockId(1), Instant());
  book_.Forget(BlockId(1));
  EXPECT_FALSE(book_.IsYoung(BlockId(1)));
}

TEST_F(HoldBookTest, AReservationLastsUntilItEnds) {
  book_.Begin(BlockId(1), Instant());
  EXPECT_FALSE(book_.IsReserved(BlockId(1)));
  book_.Reserve(BlockId(1));
  EXPECT_TRUE(book_.IsReserved(BlockId(1)));
  book_.EndReservation(BlockId(1));
  EXPECT_FALSE(book_.IsReserved(BlockId(1)));
}

TEST(HoldBookDeathTest, AHeldBlockCanNotBeForgotten) {
  HoldBook book(4, milliseconds(10));
  book.Begin(BlockId(1), Instant());
  book.Hold(BlockId(1), std::nullopt);
  EXPECT_DEATH(book.Forget(BlockId(1)), "block 1 is held");
  EXPECT_DEATH(book.Hold(BlockId(1), std::nullopt), "held already");
}

}  // namespace
}  // namespace roost::worker

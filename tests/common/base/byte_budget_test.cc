#include "common/base/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace roost {
namespace {

class ByteBudgetTest : public ::testing::Test {
 protected:
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(100);
};

TEST_F(ByteBudgetTest, RefusesWhatDoesNotFitAndChangesNothing) {
  ByteBudget::Guard first(budget_);
  ByteBudget::Guard second(budget_);
  EXPECT_TRUE(first.TryGrow(60));
  EXPECT_FALSE(second.HasRoomFor(41));
  EXPECT_FALSE(second.TryGrow(41));
  EXPECT_EQ(second.bytes(), 0U);
  EXPECT_TRUE(second.TryGrow(40));
  EXPECT_EQ(budget_->used(), 100U);
  EXPECT_FALSE(first.TryResize(61));
  EXPECT_TRUE(first.TryResize(10));
  EXPECT_EQ(budget_->used(), 50U);
  EXPECT_TRUE(first.CouldHold(100));
  EXPECT_FALSE(first.CouldHold(101));
}

TEST_F(ByteBudgetTest, GuardsGiveBackOnceWhereverTheyMove) {
  {
    ByteBudget::Guard guard(budget_);
    ASSERT_TRUE(guard.TryGrow(30));
    ByteBudget::Guard moved(std::move(guard));
    ByteBudget::Guard other(budget_);
    ASSERT_TRUE(other.TryGrow(20));
    other = std::move(moved);
    EXPECT_EQ(budget_->used(), 30U);
    EXPECT_EQ(other.bytes(), 30U);
  }
  EXPECT_EQ(budget_->used(), 0U);
}

TEST_F(ByteBudgetTest, AShareCountsInTheWholeAndNeverTakesAllOfIt) {
  const auto share = std::make_shared<ByteBudget>(60, budget_);
  ByteBudget::Guard other(budget_);
  {
    ByteBudget::Guard guard(share);
    EXPECT_TRUE(guard.CouldHold(60));
    EXPECT_FALSE(guard.CouldHold(61));
    EXPECT_FALSE(guard.TryGrow(61));
    EXPECT_TRUE(guard.TryGrow(60));
    EXPECT_EQ(budget_->used(), 60U);
    EXPECT_TRUE(other.TryGrow(40));
  }
  EXPECT_EQ(share->used(), 0U);
  EXPECT_EQ(budget_->used(), 40U);
  ASSERT_TRUE(other.TryGrow(50));
  ByteBudget::Guard late(share);
  EXPECT_FALSE(late.HasRoomFor(11));  // the whole has not so much
  EXPECT_FALSE(late.TryGrow(11));
  EXPECT_EQ(share->used(), 0U);
  EXPECT_TRUE(late.TryGrow(10));
}

TEST_F(ByteBudgetTest, ALowerLimitHoldsForWhatIsTakenNext) {
  ByteBudget::Guard guard(budget_);
  ASSERT_TRUE(guard.TryGrow(80));
  budget_->SetLimit(50);
  EXPECT_FALSE(guard.HasRoomFor(1));
  EXPECT_FALSE(guard.TryGrow(1));
  guard.Shrink(40);
  EXPECT_TRUE(guard.TryGrow(10));
}

TEST_F(ByteBudgetTest, WhatIsHeldMovesToAnotherBudgetOrStays) {
  const auto small = std::make_shared<ByteBudget>(10);
  ByteBudget::Guard guard(budget_);
  ASSERT_TRUE(guard.TryGrow(20));
  EXPECT_FALSE(guard.TryMoveTo(small));
  EXPECT_EQ(budget_->used(), 20U);
  guard.Shrink(15);
  EXPECT_TRUE(guard.TryMoveTo(small));
  EXPECT_EQ(budget_->used(), 0U);
  EXPECT_EQ(small->used(), 5U);
  EXPECT_EQ(guard.Another().bytes(), 0U);
}

TEST_F(ByteBudgetTest, WithoutABudgetEverythingFits) {
  ByteBudget::Guard guard;
  EXPECT_TRUE(guard.TryGrow(std::uint64_t{1} << 60U));
  EXPECT_TRUE(guard.TryResize(1));
  EXPECT_EQ(guard.bytes(), 1U);
}

TEST_F(ByteBudgetTest, ThreadsNeverTakeMoreThanThereIs) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int turn = 0; turn < 10'000; ++turn) {
        ByteBudget::Guard guard(budget_);
        const bool fits = guard.TryGrow(40);
        EXPECT_TRUE(!fits || budget_->used() <= budget_->limit());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget_->used(), 0U);
}

}  // namespace
}  // namespace roost

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

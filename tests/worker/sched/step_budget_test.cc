#include "worker/sched/step_budget.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using Length = StepBudget::Length;

class StepBudgetTest : public testing::Test {
 protected:
  static constexpr StepBudget::Limits kLimits{.full_step = 100, .short_step = 10, .scored = 4};

  StepBudgetTest() { budget_.BeginStep(0); }

  // Full steps take a second, half of it besides their tokens.
  void LearnPace() {
    for (int i = 0; i < 100; ++i) {
      (void)pace_.Note({.prefill_tokens = 100, .seconds = 1}, 0);
      (void)pace_.Note({.prefill_tokens = 50, .seconds = 0.75}, 0);
      (void)pace_.Note({.decode_tokens = 1, .seconds = 0.5}, 0);
    }
  }

  StepPace pace_{kLimits.full_step};
  StepBudget budget_{kLimits, pace_};
};

TEST_F(StepBudgetTest, PromptsInTurnGetAllThatIsLeft) {
  budget_.BeginTurns(100, Length::kFull);
  EXPECT_EQ(budget_.DealInTurn({.left = 70}, 1), 70U);
  EXPECT_EQ(budget_.left(), 30U);
  EXPECT_EQ(budget_.DealInTurn({.left = 70}, 0), 30U);
  EXPECT_EQ(budget_.left(), 0U);
}

TEST_F(StepBudgetTest, AStepThatCompletesAPromptIsShort) {
  budget_.BeginTurns(100, Length::kMayBeShort);
  EXPECT_EQ(budget_.DealInTurn({.left = 4}, 1), 4U);
  EXPECT_EQ(budget_.DealInTurn({.left = 70}, 0), 6U);
  EXPECT_EQ(budget_.left(), 26U) << "a prompt is admitted as if the step were full";
}

TEST_F(StepBudgetTest, AStepThatCompletesNoneIsFull) {
  budget_.BeginTurns(100, Length::kMayBeShort);
  EXPECT_EQ(budget_.DealInTurn({.left = 1000}, 3), 100U);
}

TEST_F(StepBudgetTest, AStepIsFullWhereManyWouldWaitForOneMore) {
  LearnPace();
  budget_.BeginTurns(100, Length::kMayBeShort);
  EXPECT_EQ(budget_.DealInTurn({.left = 4}, 50), 4U);
  EXPECT_EQ(budget_.DealInTurn({.left = 200}, 49), 96U);
}

TEST_F(StepBudgetTest, ScoredTokensOfAStepHaveALimitOfTheirOwn) {
  budget_.BeginTurns(100, Length::kFull);
  EXPECT_EQ(budget_.MostFor({.left = 70, .scores = true}), 4U);
  EXPECT_EQ(budget_.DealInTurn({.left = 70, .scores = true}, 1), 4U);
  EXPECT_EQ(budget_.in_part().scored, 1U);
  EXPECT_EQ(budget_.MostFor({.left = 70, .scores = true}), 0U);
  EXPECT_EQ(budget_.MostFor({.left = 70}), 70U);
}

TEST_F(StepBudgetTest, ATenantThatYieldsHasItsRoomOnly) {
  budget_.SetYieldingRoom(8);
  budget_.BeginTurns(100, Length::kFull);
  EXPECT_EQ(budget_.DealInTurn({.left = 70, .yields = true}, 1), 8U);
  EXPECT_EQ(budget_.in_part().yielded, 1U);
  EXPECT_EQ(budget_.yielding_room(), 0U);
  EXPECT_EQ(budget_.DealInTurn({.left = 20}, 0), 20U);
}

TEST_F(StepBudgetTest, WhatIsDealtOutOfTurnCountsForTheLimits) {
  EXPECT_EQ(budget_.Deal({.left = 70, .scores = true}, 3), 3U);
  EXPECT_EQ(budget_.Deal({.left = 67, .scores = true}, 3), 1U);
}

}  // namespace
}  // namespace roost::worker

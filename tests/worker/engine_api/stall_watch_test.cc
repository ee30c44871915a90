#include "worker/engine_api/stall_watch.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class StallWatchTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  StallWatch watch_{clock_};
};

TEST_F(StallWatchTest, AThreadThatWaitsNeverHangs) {
  clock_.Advance(hours(1));
  EXPECT_EQ(watch_.StepTime(), seconds(0));
  watch_.OnTurn();
  clock_.Advance(seconds(1));
  watch_.OnWait();
  clock_.Advance(hours(1));
  EXPECT_EQ(watch_.StepTime(), seconds(0));
}

TEST_F(StallWatchTest, AStepTakesAsLongAsItsThreadDoesNotTurn) {
  watch_.OnTurn();
  clock_.Advance(seconds(3));
  EXPECT_EQ(watch_.StepTime(), seconds(3));
  clock_.Advance(seconds(2));
  EXPECT_EQ(watch_.StepTime(), seconds(5));
}

TEST_F(StallWatchTest, WorkWithoutEndIsNoHangWhileItsStepsEnd) {
  for (int step = 0; step < 1000; ++step) {
    watch_.OnTurn();
    clock_.Advance(seconds(4));
    EXPECT_EQ(watch_.StepTime(), seconds(4));
  }
}

TEST_F(StallWatchTest, APartOfAStepIsNoNewStep) {
  watch_.OnTurn();
  EXPECT_EQ(watch_.parts().under_way, seconds(0));
  clock_.Advance(seconds(3));
  watch_.OnPart();
  clock_.Advance(seconds(2));
  EXPECT_EQ(watch_.StepTime(), seconds(2)) << "since the part";
  EXPECT_EQ(watch_.parts().count, 1U);
  EXPECT_EQ(watch_.parts().under_way, seconds(3)) << "what comes after the last part may hang";
  watch_.OnPart();
  EXPECT_EQ(watch_.parts().under_way, seconds(5));
  watch_.OnTurn();
  EXPECT_EQ(watch_.parts().count, 2U);
  EXPECT_EQ(watch_.parts().under_way, seconds(0)) << "the next step has begun";
  watch_.OnPart();
  watch_.OnWait();
  clock_.Advance(hours(1));
  EXPECT_EQ(watch_.parts().under_way, seconds(0));
}

}  // namespace
}  // namespace roost::worker

#include "worker/engine/count_rows.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

TEST(CountRowsTest, ARowIsItsTakersUntilAnotherOneTakesIt) {
  CountRows rows(2);
  rows.BeginStep();
  const CountRows::Place first = rows.Take();
  const CountRows::Place second = rows.Take();
  EXPECT_NE(first.row, second.row);
  rows.BeginStep();
  EXPECT_TRUE(rows.Touch(first));
  const CountRows::Place third = rows.Take();  // the second place's row, which this step has not used
  EXPECT_EQ(third.row, second.row);
  EXPECT_FALSE(rows.Touch(second));
  EXPECT_TRUE(rows.Touch(third));
  EXPECT_TRUE(rows.Touch(first));
}

TEST(CountRowsTest, TheRowThatWasNotUsedForLongestGoesFirst) {
  CountRows rows(3);
  rows.BeginStep();
  const CountRows::Place a = rows.Take();
  const CountRows::Place b = rows.Take();
  rows.BeginStep();
  EXPECT_TRUE(rows.Touch(a));
  rows.BeginStep();
  EXPECT_NE(rows.Take().row, a.row);  // a new row
  EXPECT_EQ(rows.Take().row, b.row);
  EXPECT_EQ(rows.Take().row, a.row);
}

TEST(CountRowsTest, WhoNeverTookARowHasNone) {
  CountRows rows(1);
  rows.BeginStep();
  EXPECT_FALSE(rows.Touch({}));
}

TEST(CountRowsDeathTest, ARowThatIsInUseIsNotTaken) {
  CountRows rows(1);
  rows.BeginStep();
  (void)rows.Take();
  EXPECT_DEATH((void)rows.Take(), "in use");
}

}  // namespace
}  // namespace roost::worker

#include "deploy/roostctl/capacity.h"

#include <gtest/gtest.h>

namespace roost::roostctl {
namespace {

constexpr double kPrecision = 1.02;

// All requests are good up to this speed, and half of them beyond it.
GoodShareAt Until(double most) {
  return [=](double speed) -> Result<double> { return speed <= most ? 1.0 : 0.5; };
}

TEST(CapacityTest, FindsTheSpeedFromBothSides) {
  for (const double most : {0.013, 0.7, 1.0, 1.1, 90.0}) {
    const double found = HighestGoodSpeed(Until(most), kPrecision).value();
    EXPECT_LE(found, most);
    EXPECT_GT(found * kPrecision, most);
  }
}

TEST(CapacityTest, EndsWhereNothingIsGoodOrEverything) {
  EXPECT_EQ(HighestGoodSpeed(Until(0), kPrecision).value(), 0);
  EXPECT_EQ(HighestGoodSpeed(Until(1e9), kPrecision).value(), kMaxSpeed);
}

TEST(CapacityTest, AnErrorEndsTheSearch) {
  const auto failing = [](double) -> Result<double> { return InvalidArgument("policy", "unknown"); };
  EXPECT_FALSE(HighestGoodSpeed(failing, kPrecision).ok());
}

}  // namespace
}  // namespace roost::roostctl

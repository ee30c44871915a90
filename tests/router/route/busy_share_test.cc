#include "router/route/busy_share.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

using namespace std::chrono_literals;

class BusyShareTest : public ::testing::Test {
 protected:
  // Sends a report every 100 ms; `busy_of_100_ms` seconds of each went into prefill.
  void Work(Duration span, double busy_of_100_ms) {
    for (Duration passed{}; passed < span; passed += 100ms) {
      now_ += 100ms;
      share_.Observe(busy_of_100_ms, now_);
    }
  }

  Instant now_{};
  BusyShare share_{now_};
};

TEST_F(BusyShareTest, IsTheShareOfTimeThatPrefillTook) {
  EXPECT_EQ(share_.value(), 0);
  Work(60s, 0.06);
  EXPECT_NEAR(share_.value(), 0.6, 0.01);
}

TEST_F(BusyShareTest, FirstStepsDoNotReadAsAFullFleet) {
  Work(100ms, 0.1);
  EXPECT_NEAR(share_.value(), 0.1, 0.001);
}

TEST_F(BusyShareTest, HalvesWithEachHalfLifeOfIdleness) {
  Work(300s, 0.1);
  EXPECT_NEAR(share_.value(), 1, 0.001);
  Work(BusyShare::kHalfLife, 0);
  EXPECT_NEAR(share_.value(), 0.5, 0.01);
}

// Messages are read in batches, all at one instant.
TEST_F(BusyShareTest, ReportsThatArriveTogetherCountTogether) {
  for (int i = 0; i < 60; ++i) {
    now_ += 1s;
    for (int step = 0; step < 5; ++step) share_.Observe(0.1, now_);
  }
  EXPECT_NEAR(share_.value(), 0.5, 0.02);
}

TEST_F(BusyShareTest, NeverExceedsOne) {
  Work(10s, 5);
  EXPECT_EQ(share_.value(), 1);
}

}  // namespace
}  // namespace roost::router

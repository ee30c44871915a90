#include "router/fleet/requests/admission_queues.h"

#include <gtest/gtest.h>

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1000s};

TEST(DrainRateTest, IsTheRateSinceTheStart) {
  DrainRate rate(kStart);
  EXPECT_EQ(rate.TimeFor(100, kStart), 0s);
  for (int i = 1; i <= 10; ++i) rate.OnDeparture(kStart + i * 500ms);
  // Ten requests left in five seconds; the eleventh counts as if it left now.
  EXPECT_NEAR(ToSeconds(rate.TimeFor(22, kStart + 5s)), 10, 1e-6);
  EXPECT_EQ(rate.TimeFor(0, kStart + 5s), 0s);
}

TEST(DrainRateTest, GrowsWhileNobodyLeaves) {
  DrainRate rate(kStart);
  EXPECT_EQ(rate.TimeFor(3, kStart + 2s), 6s);
  rate.OnDeparture(kStart + 2s);
  EXPECT_EQ(rate.TimeFor(3, kStart + 2s), 3s);
  EXPECT_EQ(rate.TimeFor(3, kStart + 4s), 6s);
}

TEST(DrainRateTest, ForgetsWhatIsLongAgo) {
  DrainRate rate(kStart);
  for (int i = 1; i <= 100; ++i) rate.OnDeparture(kStart + i * 10s);
  const Instant later = kStart + 1000s;
  for (int i = 1; i <= 100; ++i) rate.OnDeparture(later + i * 10ms);
  EXPECT_NEAR(ToSeconds(rate.TimeFor(100, later + 1s)), 1, 0.02);
}

}  // namespace
}  // namespace roost::router

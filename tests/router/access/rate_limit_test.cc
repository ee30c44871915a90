#include "router/access/key_account.h"

#include <gtest/gtest.h>

#include <chrono>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "router/access/api_key.h"

namespace roost::router {
namespace {

using std::chrono::seconds;

class RateLimitTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  RateLimit limit_;
};

TEST_F(RateLimitTest, AMinuteAllowsWhatTheLimitSaysAndThenFillsEvenly) {
  for (int i = 0; i < 60; ++i) {
    EXPECT_GT(limit_.Look(60, clock_.Now()).remaining, 0U);
    limit_.Take(1, 60, clock_.Now());
  }
  const RateLimit::State empty = limit_.Look(60, clock_.Now());
  EXPECT_EQ(empty.remaining, 0U);
  EXPECT_EQ(empty.until_free, seconds(1));
  EXPECT_EQ(empty.until_full, seconds(60));
  clock_.Advance(seconds(1));
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 1U);
  clock_.Advance(seconds(600));
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 60U);  // no more than a minute's is saved up
}

TEST_F(RateLimitTest, AUseBeyondTheLimitIsPaidForByWaiting) {
  limit_.Take(180, 60, clock_.Now());
  EXPECT_EQ(limit_.Look(60, clock_.Now()).until_free, seconds(121));
  clock_.Advance(seconds(120));
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 0U);
  clock_.Advance(seconds(1));
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 1U);
}

TEST_F(RateLimitTest, WhatIsGivenBackCanBeUsedAgainAndNeverMoreThanTheLimit) {
  limit_.Take(50, 60, clock_.Now());
  limit_.GiveBack(30, 60, clock_.Now());
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 40U);
  limit_.GiveBack(100, 60, clock_.Now());
  EXPECT_EQ(limit_.Look(60, clock_.Now()).remaining, 60U);
}

TEST_F(RateLimitTest, WithoutALimitEverythingIsFree) {
  limit_.Take(1'000'000, kNoLimit, clock_.Now());
  EXPECT_EQ(limit_.Look(kNoLimit, clock_.Now()).remaining, kNoLimit);
}

TEST_F(RateLimitTest, ALimitOfNothingNeverAllowsAnything) {
  EXPECT_EQ(limit_.Look(0, clock_.Now()).remaining, 0U);
  clock_.Advance(seconds(3600));
  EXPECT_EQ(limit_.Look(0, clock_.Now()).remaining, 0U);
}

TEST_F(RateLimitTest, OverAnyTimeTheUseIsBoundedWhateverTheClientDoes) {
  constexpr std::uint64_t kLimit = 600;
  constexpr std::uint64_t kMaxOfOne = 50;
  Rng random(7);
  const Instant begin = clock_.Now();
  std::uint64_t used = 0;
  for (int i = 0; i < 20'000; ++i) {
    clock_.Advance(std::chrono::milliseconds(random.Below(40)));
    if (limit_.Look(kLimit, clock_.Now()).remaining == 0) continue;
    const std::uint64_t amount = 1 + random.Below(kMaxOfOne);
    limit_.Take(amount, kLimit, clock_.Now());
    used += amount;
    const double minutes = ToSeconds(clock_.Now() - begin) / 60;
    ASSERT_LE(static_cast<double>(used), kLimit * (1 + minutes) + kMaxOfOne);
  }
  EXPECT_GT(static_cast<double>(used), 0.9 * kLimit * ToSeconds(clock_.Now() - begin) / 60);
}

}  // namespace
}  // namespace roost::router

#include "worker/disk/read_rate.h"

#include <gtest/gtest.h>

#include <chrono>

namespace roost::worker {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kBegin = Instant(seconds(100));

TEST(ReadRateTest, OneReadAtATimeIsTheMeasurementOfAnUnknownDisk) {
  const ReadRate rate;
  EXPECT_EQ(rate.SecondsFor(1'000'000'000, 0, kBegin), 0);
  EXPECT_DOUBLE_EQ(rate.SecondsFor(1'000'000'000, 1, kBegin), 1'000'000'001 / kFirstDiskRate);
  EXPECT_EQ(rate.bytes_per_second(), kFirstDiskRate);
}

TEST(ReadRateTest, FollowsRecentReads) {
  ReadRate rate;
  rate.Learn(1000, 1, kBegin);
  EXPECT_DOUBLE_EQ(rate.SecondsFor(500, 0, kBegin), 0.5);
  EXPECT_DOUBLE_EQ(rate.SecondsFor(500, 1500, kBegin), 2);
  for (int i = 0; i < 200; ++i) rate.Learn(1000, 0.1, kBegin);
  EXPECT_NEAR(rate.bytes_per_second(), 10'000, 10);
}

TEST(ReadRateTest, AReadThatTookNoTimeSaysNothing) {
  ReadRate rate;
  rate.Learn(1000, 0, kBegin);
  EXPECT_EQ(rate.SecondsFor(1000, 0, kBegin), 0);
  EXPECT_EQ(rate.bytes_per_second(), kFirstDiskRate);
}

TEST(ReadRateTest, WhatWasSlowLongAgoIsTriedAgain) {
  ReadRate rate;
  rate.Learn(1000, 10, kBegin);
  EXPECT_DOUBLE_EQ(rate.SecondsFor(1000, 0, kBegin + minutes(9)), 10);
  EXPECT_EQ(rate.SecondsFor(1000, 0, kBegin + minutes(10)), 0);
  EXPECT_DOUBLE_EQ(rate.SecondsFor(1000, 1000, kBegin + minutes(10)), 20);
}

}  // namespace
}  // namespace roost::worker

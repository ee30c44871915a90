#include "worker/cache/observe/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{seconds(1)};
constexpr BlockId kBlock{1};

DurationCounts CountsOf(std::initializer_list<Duration> durations) {
  DurationCounts counts;
  for (const Duration duration : durations) counts.Add(duration);
  return counts;
}

TEST(DurationCountsTest, ABoundBelongsToTheBucketThatItEnds) {
  const DurationCounts counts = CountsOf({Duration(0), milliseconds(1), milliseconds(1) + Duration(1)});
  EXPECT_EQ(counts.buckets[0], 2U);
  EXPECT_EQ(counts.buckets[1], 1U);
}

TEST(DurationCountsTest, WhatIsOverAllBoundsIsInTheLastBucket) {
  const DurationCounts counts = CountsOf({seconds(1800), seconds(1801), std::chrono::hours(1000)});
  EXPECT_EQ(counts.buckets[kResidencySeconds.size() - 1], 1U);
  EXPECT_EQ(counts.buckets[kResidencySeconds.size()], 2U);
  EXPECT_DOUBLE_EQ(counts.sum_seconds, 1800 + 1801 + 3'600'000);
}

TEST(DurationCountsTest, TheBoundsAscend) {
  EXPECT_TRUE(std::is_sorted(kResidencySeconds.begin(), kResidencySeconds.end()));
}

TEST(ResidencyTest, CountsAgeIdleTimeAndGapsOfABlocksLife) {
  Residency residency(2);
  residency.OnStored(kBlock, kStart);
  residency.OnLetGo(kBlock, kStart + seconds(3));
  residency.OnFound(kBlock, kStart + seconds(10));
  residency.OnFound(kBlock, kStart + seconds(11));
  residency.OnLetGo(kBlock, kStart + seconds(15));
  residency.OnLetGo(kBlock, kStart + seconds(16));
  residency.OnEvicted(kBlock, kStart + seconds(100));
  const ResidencyCounts counts = residency.Take();
  EXPECT_EQ(counts.reuse_gap, CountsOf({seconds(7), seconds(1)}));
  EXPECT_EQ(counts.age_at_eviction, CountsOf({seconds(100)}));
  EXPECT_EQ(counts.idle_before_eviction, CountsOf({seconds(84)}));
}

TEST(ResidencyTest, ABlockStoredAnewHasANewLife) {
  Residency residency(2);
  residency.OnStored(kBlock, kStart);
  residency.OnEvicted(kBlock, kStart + seconds(1));
  residency.OnStored(kBlock, kStart + seconds(5));
  (void)residency.Take();
  residency.OnEvicted(kBlock, kStart + seconds(7));
  EXPECT_EQ(residency.Take().age_at_eviction, CountsOf({seconds(2)}));
}

TEST(ResidencyTest, TakesEachCountOnce) {
  Residency residency(2);
  residency.OnStored(kBlock, kStart);
  residency.OnFound(kBlock, kStart);
  EXPECT_EQ(residency.Take().reuse_gap, CountsOf({Duration(0)}));
  EXPECT_EQ(residency.Take(), ResidencyCounts());
}

}  // namespace
}  // namespace roost::worker

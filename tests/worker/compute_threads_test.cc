#include "worker/compute_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/gauge.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "common/metrics/catalog.h"

namespace roost::worker {
namespace {

using News = ComputeThreads::News;
using std::chrono::seconds;

class ComputeThreadsTest : public testing::Test {
 protected:
  News Change(std::uint32_t in_use) {
    clock_.Advance(seconds(5));
    return threads_.Note(in_use, clock_.Now());
  }

  ManualClock clock_;
  ComputeThreads threads_{4};
};

TEST_F(ComputeThreadsTest, TheFirstChangeIsNewsAndTheWayBack) {
  EXPECT_EQ(Change(2), News::kFewer);
  EXPECT_EQ(Change(1), News::kNone);
  EXPECT_EQ(Change(3), News::kNone);
  EXPECT_EQ(Change(4), News::kAllAgain);
}

TEST_F(ComputeThreadsTest, ALoadThatComesAndGoesIsNewsOnce) {
  (void)Change(2);
  (void)Change(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Change(2), News::kNone);
    EXPECT_EQ(Change(4), News::kNone);
  }
  clock_.Advance(ComputeThreads::kQuietTime);
  EXPECT_EQ(Change(2), News::kFewer);
}

TEST_F(ComputeThreadsTest, TheGaugeFollows) {
  metrics::Registry registry;
  prometheus::Gauge& gauge = registry.Gauge(metrics::kWorkerComputeThreads);
  threads_.Export(gauge);
  EXPECT_EQ(gauge.Value(), 4);
  threads_.OnChange(2, clock_.Now());
  EXPECT_EQ(gauge.Value(), 2);
}

TEST_F(ComputeThreadsTest, TheMetricsAreReadWhileTheNumberChanges) {
  constexpr std::uint32_t kChanges = 2'000;
  metrics::Registry registry;
  threads_.Export(registry.Gauge(metrics::kWorkerComputeThreads));
  std::thread computing([this] {
    for (std::uint32_t i = 0; i < kChanges; ++i) threads_.OnChange(1 + i % 4, clock_.Now());
    threads_.OnChange(3, clock_.Now());
  });
  for (int i = 0; i < 20; ++i) EXPECT_THAT(registry.Text(), testing::HasSubstr("roost_worker_compute_threads "));
  computing.join();
  EXPECT_THAT(registry.Text(), testing::HasSubstr("roost_worker_compute_threads 3\n"));
}

}  // namespace
}  // namespace roost::worker

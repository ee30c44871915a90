#include "common/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace roost::metrics {
namespace {

using testing::HasSubstr;

TEST(RegistryTest, WritesPrometheusTextWithLabelsAndConstantLabels) {
  Registry registry(std::vector<Registry::ConstantLabel>{{"model", "demo"}});
  registry.Counter(kWorkerRequests, {"stop"}).Increment(3);
  registry.Gauge(kWorkerBlocks, {"free"}).Set(7);
  registry.Histogram(kWorkerTtft).Observe(0.002);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("roost_worker_requests_total{model=\"demo\",outcome=\"stop\"} 3"));
  EXPECT_THAT(text, HasSubstr("roost_worker_blocks{model=\"demo\",state=\"free\"} 7"));
  EXPECT_THAT(text, HasSubstr("roost_worker_ttft_seconds_bucket{model=\"demo\",le=\"0.0025\"} 1"));
}

TEST(RegistryTest, ResolvingAgainGivesTheSameMetric) {
  Registry registry;
  registry.Counter(kRouterDecisions, {"random", "random"}).Increment();
  registry.Counter(kRouterDecisions, {"random", "random"}).Increment();
  EXPECT_EQ(registry.Counter(kRouterDecisions, {"random", "random"}).Value(), 2);
}

TEST(RegistryDeathTest, WrongLabelsOrKindAreBugs) {
  Registry registry;
  EXPECT_DEATH(registry.Counter(kRouterDecisions, {"one"}), "no value for label reason");
  EXPECT_DEATH(registry.Counter(kWorkerPreemptions, {"one"}), "1 values");
  EXPECT_DEATH(registry.Counter(kWorkerTtft), "roost_worker_ttft_seconds");
}

}  // namespace
}  // namespace roost::metrics

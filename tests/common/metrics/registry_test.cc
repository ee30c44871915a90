#include "common/metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <string>

namespace roost::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(RegistryTest, IsUpdatedBeforeItIsRead) {
  Registry registry;
  prometheus::Gauge& gauge = registry.Gauge(kRouterActiveRequests);
  registry.OnRead([&gauge] { gauge.Increment(); });
  EXPECT_THAT(registry.Text(), HasSubstr("roost_router_active_requests 1\n"));
  EXPECT_THAT(registry.Text(), HasSubstr("roost_router_active_requests 2\n"));
}

TEST(RegistryTest, NamesFromOutsideAreBounded) {
  Registry registry;
  const std::size_t most = 256;  // of models
  for (std::size_t i = 0; i < most + 10; ++i) {
    registry.Counter(kRouterOutputTokens, {"model-" + std::to_string(i)}).Increment();
  }
  registry.Counter(kRouterOutputTokens, {"model-0"}).Increment();
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("roost_router_output_tokens_total{model=\"model-0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roost_router_output_tokens_total{model=\"model-255\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roost_router_output_tokens_total{model=\"other\"} 10\n"));
  EXPECT_THAT(text, Not(HasSubstr("model-256")));
}

TEST(RegistryTest, RemovedSeriesAreGone) {
  Registry registry;
  registry.Gauge(kRouterWorkerInFlight, {"demo", "a"}).Set(1);
  registry.Gauge(kRouterWorkerInFlight, {"demo", "b"}).Set(2);
  registry.Remove(kRouterWorkerInFlight, {"demo", "a"});
  registry.Remove(kRouterWorkerInFlight, {"demo", "c"});  // there is none
  const std::string text = registry.Text();
  EXPECT_THAT(text, Not(HasSubstr("worker=\"a\"")));
  EXPECT_THAT(text, HasSubstr("worker=\"b\""));
}

TEST(RegistryDeathTest, WrongLabelsOrKindAreBugs) {
  Registry registry;
  EXPECT_DEATH(registry.Counter(kRouterDecisions, {"one"}), "no value for label reason");
  EXPECT_DEATH(registry.Counter(kWorkerPreemptions, {"one"}), "1 values");
  EXPECT_DEATH(registry.Counter(kWorkerTtft), "roost_worker_ttft_seconds");
  constexpr Metric kStray{Kind::kGauge, "stray", "mood", "A label that kLabels does not have."};
  EXPECT_DEATH(registry.Gauge(kStray, {"good"}), "the label 'mood' is not declared");
}

}  // namespace
}  // namespace roost::metrics

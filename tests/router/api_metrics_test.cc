#include "router/api_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace roost::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ApiMetricsTest : public ::testing::Test {
 protected:
  void ExpectSeries(std::string_view series, std::string_view value) {
    EXPECT_THAT(registry_.Text(), HasSubstr("\nroost_router_" + std::string(series) + " " + std::string(value) + "\n"));
  }
  static NamedAccount Key(std::string name, std::string tenant, std::shared_ptr<KeyAccount> account) {
    return {.name = std::move(name), .tenant = std::move(tenant), .account = std::move(account)};
  }

  metrics::Registry registry_;
  ApiMetrics metrics_{registry_};
};

TEST_F(ApiMetricsTest, EveryRouteHasEveryStatusFromTheStart) {
  for (const char* route : {"chat_completions", "messages", "tokenize", "pin", "other"}) {
    for (const char* code : {"200", "400", "401", "429", "499", "500", "503", "504"}) {
      ExpectSeries("requests_total{code=\"" + std::string(code) + "\",route=\"" + route + "\"}", "0");
    }
  }
}

TEST_F(ApiMetricsTest, ProbesAndScrapesAreNoRequests) {
  for (const char* route : {"health", "ready", "metrics"}) {
    metrics_.OnAnswer(route, 200);
    metrics_.OnAnswer(route, 503);
  }
  metrics_.OnAnswer("models", 200);
  ExpectSeries(R"(requests_total{code="200",route="models"})", "1");
  for (const char* route : {"health", "ready", "metrics"}) {
    EXPECT_THAT(registry_.Text(), Not(HasSubstr("route=\"" + std::string(route) + "\"")));
  }
}

TEST_F(ApiMetricsTest, GenerationsAreCountedByOutcomeAndLength) {
  GenerationSummary summary{
      .model = "demo", .prompt_tokens = 100, .completion_tokens = 20, .cached_tokens = 60, .seconds = 0.5};
  metrics_.OnGenerationStart("demo");
  metrics_.OnGenerationEnd(summary);
  summary.outcome = GenerationSummary::Outcome::kError;
  summary.error = ErrorCode::kOverloaded;
  summary.cached_tokens = std::nullopt;
  metrics_.OnGenerationStart("demo");
  metrics_.OnGenerationEnd(summary);
  ExpectSeries(R"(generations_total{model="demo",outcome="stop"})", "1");
  ExpectSeries(R"(generations_total{model="demo",outcome="overloaded"})", "1");
  ExpectSeries(R"(generations_total{model="demo",outcome="unavailable"})", "0");
  ExpectSeries(R"(generation_prompt_tokens_sum{model="demo"})", "100");
  ExpectSeries(R"(generation_output_tokens_bucket{model="demo",le="16"})", "0");
  ExpectSeries(R"(generation_output_tokens_bucket{model="demo",le="64"})", "1");
  ExpectSeries("active_requests", "0");
}

TEST_F(ApiMetricsTest, AModelHasItsSeriesBeforeItsFirstRequest) {
  ServedModel served;
  served.name = "demo";
  metrics_.OnModels(std::vector{std::make_shared<const ServedModel>(served)});
  ExpectSeries(R"(ttft_seconds_count{model="demo"})", "0");
  ExpectSeries(R"(output_tokens_total{model="demo"})", "0");
  ExpectSeries(R"(generations_total{model="demo",outcome="deadline_exceeded"})", "0");
}

TEST_F(ApiMetricsTest, GenerationsThatNobodyServesCountByModelAndMadeUpNamesAsOther) {
  metrics_.OnUnserved({.model = "demo", .is_known = true, .error = ErrorCode::kUnavailable});
  metrics_.OnUnserved({.model = "demo", .is_known = true, .error = ErrorCode::kModelNotFound});
  ExpectSeries(R"(generations_total{model="demo",outcome="unavailable"})", "1");
  ExpectSeries(R"(generations_total{model="demo",outcome="model_not_found"})", "1");
  for (int i = 0; i < 100; ++i) {
    const std::string name = "made-up-" + std::to_string(i);
    metrics_.OnUnserved({.model = name, .is_known = false, .error = ErrorCode::kUnavailable});
  }
  ExpectSeries(R"(generations_total{model="other",outcome="unavailable"})", "100");
  ExpectSeries("active_requests", "0");
}

TEST_F(ApiMetricsTest, AKeysUseIsCountedOnceWhereverItsTenantIs) {
  const auto account = std::make_shared<KeyAccount>();
  account->CountGeneration(100, 60, 20);
  metrics_.OnKeys(std::vector{Key("app", "acme", account)});
  metrics_.OnKeys(std::vector{Key("app", "acme", account)});
  ExpectSeries(R"(key_prompt_tokens_total{key="app",tenant="acme"})", "100");
  ExpectSeries(R"(key_refused_requests_total{key="app",tenant="acme"})", "0");
  account->CountGeneration(50, 0, 5);
  metrics_.OnKeys(std::vector{Key("app", "other-tenant", account)});
  ExpectSeries(R"(key_prompt_tokens_total{key="app",tenant="acme"})", "100");
  ExpectSeries(R"(key_prompt_tokens_total{key="app",tenant="other-tenant"})", "50");
}

}  // namespace
}  // namespace roost::router

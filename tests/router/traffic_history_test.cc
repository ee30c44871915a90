#include "router/traffic_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::router {
namespace {

using testing::HasSubstr;
using testing::Not;

struct TrafficHistoryTest : ::testing::Test {
  NullApiObserver next;
  std::int64_t now = 1'000'000;
  TrafficHistory history{next, [this] { return now; }};

  void End(std::string_view model, std::optional<ErrorCode> error = {}) {
    history.OnGenerationEnd({.model = model,
                             .outcome = error ? GenerationSummary::Outcome::kError : GenerationSummary::Outcome::kStop,
                             .error = error,
                             .prompt_tokens = 100,
                             .completion_tokens = 7,
                             .cached_tokens = 60});
  }
};

TEST_F(TrafficHistoryTest, KeepsWhatHappenedInEachStep) {
  FleetStanding standing;
  standing.models = {{.model = "demo", .workers = {}, .seconds = 1}};
  standing.models.front().workers.Add(WorkerState::kReady);
  standing.models.front().workers.Add(WorkerState::kCordoned);
  history.OnWorkers(standing, std::vector<QueueStatus>{{.model = "demo", .waiting_requests = 4}});
  End("demo");
  End("demo", ErrorCode::kInternal);
  End("demo", ErrorCode::kOverloaded);  // not the server's fault
  history.OnUnserved({.model = "demo", .is_known = true, .error = ErrorCode::kUnavailable});
  history.OnFirstToken("demo", 0.5);
  EXPECT_THAT(
      history.Json(),
      testing::StartsWith(
          R"({"step_seconds":10,"models":[{"id":"demo","points":[{"unix_seconds":1000000,"ready_workers":1,"workers":2,)"
          R"("waiting_requests":4,"ended":4,"failed":2,"prompt_tokens":300,"cached_tokens":180,"output_tokens":21,)"));
  EXPECT_THAT(history.Json(), HasSubstr(R"("ttft_p99_seconds":0.512)"));
  now += 10;
  End("demo");
  EXPECT_THAT(history.Json(),
              HasSubstr(R"({"unix_seconds":1000010,"ready_workers":1,"workers":2,"waiting_requests":0,"ended":1,)"));
}

TEST_F(TrafficHistoryTest, ForgetsAfterAnHourAndBoundsItsModels) {
  End("demo");
  for (std::size_t i = 0; i < 2 * TrafficHistory::kPoints; ++i) {
    now += TrafficHistory::kStepSeconds;
    End("demo");
  }
  EXPECT_THAT(history.Json(), Not(HasSubstr(R"("unix_seconds":1000000,)")));
  std::size_t points = 0;
  const std::string json = history.Json();
  for (auto at = json.find("unix_seconds"); at != std::string::npos; at = json.find("unix_seconds", at + 1)) ++points;
  EXPECT_EQ(points, TrafficHistory::kPoints);
  for (int i = 0; i < 100; ++i) End("model-" + std::to_string(i));
  EXPECT_THAT(history.Json(), HasSubstr(R"("id":"other")"));
  EXPECT_THAT(history.Json(), Not(HasSubstr(R"("id":"model-99")")));
}

TEST_F(TrafficHistoryTest, NamesThatClientsMadeUpHaveNoHistory) {
  history.OnUnserved({.model = "made-up", .is_known = false, .error = ErrorCode::kUnavailable});
  EXPECT_THAT(history.Json(), Not(HasSubstr("made-up")));
}

}  // namespace
}  // namespace roost::router

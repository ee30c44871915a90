#include "worker/worker_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/engine_api/stall_watch.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class WorkerApiTest : public ::testing::Test {
 protected:
  HttpResponse Ask(const std::string& path, const std::string& method = "GET", std::vector<HttpHeader> headers = {}) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    return api_.Answer(request);
  }
  void ExpectUnready(const std::string& status, const std::string& reason) {
    const HttpResponse answer = Ask("/ready");
    EXPECT_EQ(answer.status, 503);
    EXPECT_THAT(answer.body, HasSubstr(R"({"status":")" + status + '"'));
    EXPECT_THAT(answer.body, HasSubstr(reason));
  }

  ManualClock clock_;
  StallWatch engine_{clock_};
  StallWatch link_{clock_};
  bool is_draining_ = false;
  std::string engine_absence_;
  std::vector<RouterStatus> routers_;
  WorkerApi api_{{.threads =
                      [this] {
                        return std::vector<ThreadProgress>{{"engine", engine_.StepTime()}, {"link", link_.StepTime()}};
                      },
                  .is_draining = [this] { return is_draining_; },
                  .engine_absence = [this] { return engine_absence_; },
                  .routers = [this] { return routers_; },
                  .metrics_text = [] { return std::string("roost_worker_links 1\n"); }},
                 {.stall_timeout = seconds(10), .version = "1.2.3"}};
};

TEST_F(WorkerApiTest, AProcessThatAnswersIsHealthy) {
  engine_.OnTurn();
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(Ask("/health").status, 200);
  EXPECT_EQ(Ask("/health").body, R"({"status":"ok"})");
}

TEST_F(WorkerApiTest, AnIdleWorkerLives) {
  clock_.Advance(std::chrono::hours(1));
  EXPECT_EQ(Ask("/livez").status, 200);
}

TEST_F(WorkerApiTest, ALongStepLivesAndOneThatHangsDoesNot) {
  engine_.OnTurn();
  clock_.Advance(seconds(10));
  EXPECT_EQ(Ask("/livez").status, 200);
  clock_.Advance(milliseconds(500));
  EXPECT_EQ(Ask("/livez").status, 503);
  EXPECT_EQ(Ask("/livez").body,
            R"({"status":"stalled","reason":"the engine thread has work and has not finished a step for 10.5 s"})");
  engine_.OnTurn();  // it has ended after all
  EXPECT_EQ(Ask("/livez").status, 200);
}

TEST_F(WorkerApiTest, ALinkThatHangsIsAsBad) {
  link_.OnTurn();
  clock_.Advance(seconds(11));
  engine_.OnTurn();
  EXPECT_EQ(Ask("/livez").status, 503);
  EXPECT_THAT(Ask("/livez").body, HasSubstr("link thread"));
}

TEST_F(WorkerApiTest, ReadyNeedsARouterThatAccepts) {
  ExpectUnready("connecting", "--router");
  routers_ = {{"tcp://a:1", LinkStanding::kConnecting}};
  ExpectUnready("connecting", "no answer from the router at tcp://a:1");
  routers_.push_back({"tcp://b:1", LinkStanding::kUp});
  EXPECT_EQ(Ask("/ready").status, 200);
  EXPECT_EQ(Ask("/readyz").body, R"({"status":"ready","routers":[{"router":"tcp://a:1","state":"connecting"},)"
                                 R"({"router":"tcp://b:1","state":"up"}]})");
}

TEST_F(WorkerApiTest, ARefusalSaysByWhomAndWhy) {
  routers_ = {{"tcp://a:1", LinkStanding::kConnecting},
              {"tcp://b:1", LinkStanding::kRefused, "the name \"w\" is taken"}};
  ExpectUnready("refused", R"(the router at tcp://b:1 refuses this worker: the name \"w\" is taken)");
  routers_[0].standing = LinkStanding::kUp;  // one router is enough
  EXPECT_EQ(Ask("/ready").status, 200);
  EXPECT_THAT(Ask("/ready").body, HasSubstr(R"("state":"refused","reason":"the name \"w\" is taken")"));
}

TEST_F(WorkerApiTest, ADrainingWorkerIsNotReadyAndAlive) {
  routers_ = {{"tcp://a:1", LinkStanding::kUp}};
  is_draining_ = true;
  ExpectUnready("draining", "shutting down");
  EXPECT_EQ(Ask("/livez").status, 200);
  EXPECT_EQ(Ask("/health").status, 200);
}

TEST_F(WorkerApiTest, AWorkerWithoutItsEngineIsNotReadyAndAlive) {
  routers_ = {{"tcp://a:1", LinkStanding::kUp, ""}};
  EXPECT_EQ(Ask("/ready").status, 200);
  engine_absence_ = "no answer from http://127.0.0.1:8000";
  ExpectUnready("engine_away", "no answer from http://127.0.0.1:8000");
  EXPECT_EQ(Ask("/livez").status, 200);
}

TEST_F(WorkerApiTest, MetricsAndVersion) {
  EXPECT_EQ(Ask("/metrics").body, "roost_worker_links 1\n");
  EXPECT_THAT(Ask("/metrics").content_type, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_EQ(Ask("/version").body, R"({"version":"1.2.3"})");
}

TEST_F(WorkerApiTest, OtherPathsAndMethodsAreJsonErrors) {
  EXPECT_EQ(Ask("/v1/models").status, 404);
  EXPECT_THAT(Ask("/v1/models").body, HasSubstr("there is no /v1/models"));
  const HttpResponse posted = Ask("/ready", "POST");
  EXPECT_EQ(posted.status, 405);
  EXPECT_EQ(posted.headers.at(0).value, "GET, HEAD, OPTIONS");
  EXPECT_EQ(Ask("/metrics", "OPTIONS").status, 204);
  EXPECT_EQ(Ask("/health", "HEAD").status, 200);
}

// A web page may point its own name at this machine and read what it says.
TEST_F(WorkerApiTest, APageInABrowserReadsNoMetrics) {
  const std::vector<HttpHeader> page{{"Host", "evil.example:9101"}, {"Origin", "http://evil.example:9101"}};
  EXPECT_EQ(Ask("/metrics", "GET", page).status, 403);
  EXPECT_EQ(Ask("/version", "GET", page).status, 403);
  EXPECT_EQ(Ask("/livez", "GET", page).status, 200);
  EXPECT_EQ(Ask("/metrics", "GET", {{"Host", "roost-worker-0:9101"}}).status, 200);  // no browser
}

}  // namespace
}  // namespace roost::worker

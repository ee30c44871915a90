// The exporter against a collector that is an HTTP server of ours.
#include "common/trace/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/http/server.h"

namespace roost::trace {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class SpanExporterTest : public ::testing::Test {
 protected:
  ~SpanExporterTest() override { exporter_.reset(); }

  // Answers with the statuses in turn, the last one for ever.
  void Collect(std::vector<int> statuses) {
    const auto handler = [this, statuses = std::move(statuses)](HttpRequest request,
                                                                const std::shared_ptr<Responder>& responder) {
      HttpResponse response;
      {
        const std::lock_guard lock(mutex_);
        response.status = statuses.at(std::min(bodies_.size(), statuses.size() - 1));
        path_ = request.path;
        bodies_.push_back(request.body.TakeText(0));
      }
      responder->Respond(std::move(response));
    };
    collector_ = std::move(HttpServer::Start(HttpServerOptions(), handler).value());
    Start("http://127.0.0.1:" + std::to_string(collector_->port()));
  }
  void Start(std::string endpoint) {
    exporter_ = SpanExporter::Start({.endpoint = std::move(endpoint),
                                     .resource = {.service_name = "s"},
                                     .batch_time = milliseconds(1),
                                     .request_time = milliseconds(2000),
                                     .pause = milliseconds(1),
                                     .on_outcome =
                                         [this](SpanOutcome outcome, std::size_t count) {
                                           const std::lock_guard lock(mutex_);
                                           outcomes_[outcome] += count;
                                           changed_.notify_all();
                                         }})
                    .value();
  }
  void Add(std::string name) { exporter_->Add({.trace_id = "t", .span_id = "s", .name = std::move(name)}); }
  void Await(SpanOutcome outcome, std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return outcomes_[outcome] >= count; }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<SpanOutcome, std::size_t> outcomes_;
  std::vector<std::string> bodies_;
  std::string path_;

  std::unique_ptr<HttpServer> collector_;
  std::unique_ptr<SpanExporter> exporter_;
};

TEST_F(SpanExporterTest, SpansArriveAtTheCollectorsPath) {
  Collect({200});
  Add("one");
  Await(SpanOutcome::kSent, 1);
  EXPECT_EQ(path_, "/v1/traces");
  EXPECT_THAT(bodies_.front(), HasSubstr(R"("name":"one")"));
}

TEST_F(SpanExporterTest, ACollectorThatIsBusyIsAskedAgainAndOneThatRefusesIsNot) {
  Collect({503, 429, 200, 400});
  Add("again");
  Await(SpanOutcome::kSent, 1);
  EXPECT_EQ(bodies_.size(), 3U);
  EXPECT_EQ(bodies_[0], bodies_[1].empty() ? "" : bodies_[0]);
  Add("refused");
  Await(SpanOutcome::kRefused, 1);
  EXPECT_EQ(bodies_.size(), 4U);
}

TEST_F(SpanExporterTest, WhatNobodyTakesIsDroppedAndCounted) {
  Start("http://127.0.0.1:1");
  Add("lost");
  Await(SpanOutcome::kUnreachable, 1);
}

TEST_F(SpanExporterTest, TheQueueIsBounded) {
  // No answer comes for as long as the test lasts: the first batch waits, and the queue fills up behind it.
  std::vector<std::shared_ptr<Responder>> open;
  collector_ =
      std::move(HttpServer::Start(HttpServerOptions(), [&open](HttpRequest, std::shared_ptr<Responder> responder) {
                  open.push_back(std::move(responder));
                }).value());
  Start("http://127.0.0.1:" + std::to_string(collector_->port()));
  for (std::size_t i = 0; i < SpanExporter::kMaxQueued + SpanExporter::kMaxBatch + 7; ++i) Add("x");
  Await(SpanOutcome::kQueueFull, 7);
  collector_->Stop(milliseconds(0));
}

TEST_F(SpanExporterTest, WhatWaitsAtTheEndIsSent) {
  Collect({200});
  for (int i = 0; i < 2000; ++i) Add("x");
  exporter_.reset();
  EXPECT_EQ(outcomes_[SpanOutcome::kSent], 2000U);
}

TEST(SpanExporterOptionsTest, AnEndpointIsAUrl) {
  for (const char* endpoint : {"", "127.0.0.1:4318", "tcp://127.0.0.1:1", "http://"}) {
    const auto started = SpanExporter::Start({.endpoint = endpoint});
    ASSERT_FALSE(started.ok()) << endpoint;
    EXPECT_EQ(started.error().field, "otlp-endpoint");
  }
}

}  // namespace
}  // namespace roost::trace

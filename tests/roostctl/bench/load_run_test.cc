// Loads against an endpoint that the test plays.
#include "deploy/roostctl/bench/load_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/http/server.h"

namespace roost::roostctl {
namespace {

std::string Event(const std::string& json) { return "data: " + json + "\n\n"; }
std::string Piece(const std::string& text) {
  return Event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("},"finish_reason":null}]})");
}
const std::string kEnd =
    Event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})") +
    Event(
        R"({"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}})") +
    "data: [DONE]\n\n";

class LoadRunTest : public ::testing::Test {
 protected:
  // `answer` gets the number of the request, from 0, and runs on the server's only thread.
  void Serve(std::function<void(std::size_t number, const std::shared_ptr<Responder>& responder)> answer) {
    HttpServerOptions options;
    options.thread_count = 1;
    server_ = std::move(
        HttpServer::Start(options, [this, answer](HttpRequest request, const std::shared_ptr<Responder>& responder) {
          std::size_t number = 0;
          {
            const std::lock_guard lock(mutex_);
            number = bodies_.size();
            bodies_.push_back(request.body.TakeText(0));
            paths_.push_back(request.path);
          }
          answer(number, responder);
        }).value());
    target_.access.url = "http://127.0.0.1:" + std::to_string(server_->port());
    target_.label = "test";
    target_.model = "m";
  }
  static void AnswerWhole(Responder& responder) {
    responder.PrepareStream({{"x-roost-worker", "w1"}});
    responder.Send(Piece("Hel") + Piece("lo"));
    responder.Send(kEnd);
    responder.End();
  }

  static BenchSession SessionOf(std::size_t number, std::size_t turns, double start = 0) {
    BenchSession session;
    session.number = number;
    session.start_seconds = start;
    for (std::size_t i = 0; i < turns; ++i) {
      session.turns.push_back({.text = Given("question " + std::to_string(i)), .max_tokens = 8});
    }
    return session;
  }

  std::vector<std::string> bodies_;
  std::vector<std::string> paths_;
  std::mutex mutex_;
  LoadTarget target_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(LoadRunTest, ReadsEachAnswerAsAClientSeesIt) {
  Serve([](std::size_t, const std::shared_ptr<Responder>& responder) { AnswerWhole(*responder); });
  LoadPlan plan;
  plan.sessions = {SessionOf(3, 1)};
  plan.concurrency = 1;
  const LoadResult result = RunLoad(target_, plan).value();
  ASSERT_EQ(result.samples.size(), 1U);
  const BenchSample& sample = result.samples[0];
  EXPECT_EQ(sample.error, "");
  EXPECT_EQ(sample.worker, "w1");
  EXPECT_EQ(sample.prompt_tokens, 40U);
  EXPECT_EQ(sample.cached_tokens, 32U);
  EXPECT_EQ(sample.output_tokens, 2U);
  EXPECT_EQ(sample.gap_seconds.size(), 1U);
  EXPECT_EQ(sample.session, 3U);
  EXPECT_GT(sample.ttft_seconds, 0);
  EXPECT_GE(sample.total_seconds, sample.ttft_seconds);
  EXPECT_EQ(paths_[0], "/v1/chat/completions");
}

TEST_F(LoadRunTest, ATurnGoesOnFromTheAnswerBeforeIt) {
  Serve([](std::size_t, const std::shared_ptr<Responder>& responder) { AnswerWhole(*responder); });
  LoadPlan plan;
  plan.sessions = {SessionOf(0, 2)};
  plan.sessions[0].front = Given("be brief");
  plan.concurrency = 1;
  EXPECT_EQ(RunLoad(target_, plan)->samples.size(), 2U);
  ASSERT_EQ(bodies_.size(), 2U);
  EXPECT_THAT(bodies_[1], testing::HasSubstr(R"({"role":"system","content":"be brief"},{"role":"user","content":)"
                                             R"("question 0"},{"role":"assistant","content":"Hello"},{"role":"user",)"
                                             R"("content":"question 1"})"));
  target_.api = BenchApi::kCompletions;
  EXPECT_EQ(RunLoad(target_, plan)->samples.size(), 2U);
  EXPECT_EQ(paths_.back(), "/v1/completions");
  EXPECT_THAT(bodies_.back(), testing::HasSubstr(R"("prompt":"be brief\n\nquestion 0\n\n)"));
}

// The endpoint answers none before all have arrived: a loop that waits for answers would wait for ever.
TEST_F(LoadRunTest, AnOpenLoopSendsOnWhileTheEndpointStallsAndCountsTheWaiting) {
  constexpr std::size_t kCount = 20;
  std::vector<std::shared_ptr<Responder>> held;
  Serve([&held](std::size_t, const std::shared_ptr<Responder>& responder) {
    held.push_back(responder);
    if (held.size() < kCount) return;
    for (const std::shared_ptr<Responder>& each : held) {
      each->Post([each] { AnswerWhole(*each); });
    }
  });
  LoadPlan plan;
  for (std::size_t i = 0; i < kCount; ++i) plan.sessions.push_back(SessionOf(i, 1, 0.01 * static_cast<double>(i)));
  const LoadResult result = RunLoad(target_, plan).value();
  ASSERT_EQ(result.samples.size(), kCount);
  for (const BenchSample& sample : result.samples) {
    EXPECT_EQ(sample.error, "");
    // The last request is sent at 0.19 s.
    EXPECT_GE(sample.scheduled_seconds + sample.ttft_seconds, 0.19);
  }
  EXPECT_GE(result.seconds, 0.19);
  held.clear();
}

TEST_F(LoadRunTest, AClosedLoopHasSoManySessionsAtATime) {
  std::size_t open = 0;
  std::size_t most = 0;
  Serve([&](std::size_t, const std::shared_ptr<Responder>& responder) {
    most = std::max(most, ++open);
    responder->Post([&open, responder] {
      --open;
      AnswerWhole(*responder);
    });
  });
  LoadPlan plan;
  for (std::size_t i = 0; i < 12; ++i) plan.sessions.push_back(SessionOf(i, 2));
  plan.concurrency = 3;
  LoadProgress last;
  plan.on_progress = [&last](const LoadProgress& progress) { last = progress; };
  EXPECT_EQ(RunLoad(target_, plan)->samples.size(), 24U);
  EXPECT_LE(most, 3U);
  EXPECT_EQ(last.session_count, 12U);
}

TEST_F(LoadRunTest, ErrorsAreCountedByKind) {
  Serve([](std::size_t number, const std::shared_ptr<Responder>& responder) {
    roost::HttpResponse busy;
    busy.status = 503;
    busy.body = R"({"error":{"message":"busy"}})";
    if (number == 0) return responder->Respond(std::move(busy));
    responder->PrepareStream({});
    if (number == 1) responder->Send(Event(R"({"error":{"message":"it broke"}})"));
    if (number == 2) responder->Send(Event("not JSON"));
    if (number == 3) responder->Send(Piece("Hel"));  // and no more
    responder->End();
  });
  LoadPlan plan;
  for (std::size_t i = 0; i < 4; ++i) plan.sessions.push_back(SessionOf(i, 1));
  plan.concurrency = 1;
  const LoadResult result = RunLoad(target_, plan).value();
  std::vector<std::string> kinds;
  for (const BenchSample& sample : result.samples) kinds.push_back(sample.error_kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"status 503", "error event", "not JSON", "cut off"}));
  EXPECT_THAT(result.samples[0].error, testing::HasSubstr("busy"));

  target_.access.url = "http://127.0.0.1:1";
  EXPECT_EQ(RunLoad(target_, plan)->samples.at(0).error_kind, "no connection");
}

// Its first token would be its end: a short time that says nothing.
TEST_F(LoadRunTest, AnAnswerWithoutTextIsAFailure) {
  Serve([](std::size_t number, const std::shared_ptr<Responder>& responder) {
    if (number == 0) return AnswerWhole(*responder);
    responder->PrepareStream({{"x-roost-worker", "w1"}});
    responder->Send(kEnd);
    responder->End();
  });
  LoadPlan plan;
  plan.concurrency = 1;
  plan.sessions = {SessionOf(0, 1), SessionOf(1, 1)};
  const LoadResult result = RunLoad(target_, plan).value();
  ASSERT_EQ(result.samples.size(), 2U);
  EXPECT_EQ(result.samples[0].error, "");
  EXPECT_EQ(result.samples[1].error_kind, "no text");
}

TEST_F(LoadRunTest, ARequestThatTakesTooLongIsATimeout) {
  std::shared_ptr<Responder> held;
  Serve([&held](std::size_t, const std::shared_ptr<Responder>& responder) { held = responder; });
  target_.timeout_seconds = 0.1;
  LoadPlan plan;
  plan.sessions = {SessionOf(0, 1)};
  plan.concurrency = 1;
  EXPECT_EQ(RunLoad(target_, plan)->samples.at(0).error_kind, "timeout");
  held.reset();
}

TEST_F(LoadRunTest, WarmUpsAreSentAndNotCounted) {
  Serve([](std::size_t, const std::shared_ptr<Responder>& responder) { AnswerWhole(*responder); });
  LoadPlan plan;
  plan.sessions = {SessionOf(0, 1), SessionOf(1, 1, 0.05)};
  plan.sessions[0].is_warm_up = true;
  const LoadResult result = RunLoad(target_, plan).value();
  EXPECT_EQ(bodies_.size(), 2U);
  ASSERT_EQ(result.samples.size(), 1U);
  EXPECT_EQ(result.samples[0].session, 1U);
  EXPECT_NEAR(result.seconds, result.samples[0].total_seconds, 0.005);
}

TEST_F(LoadRunTest, TheSideThatAnswersFirstWritesTheHistoryOfBoth) {
  Serve([](std::size_t number, const std::shared_ptr<Responder>& responder) {
    responder->PrepareStream({});
    responder->Send(Piece("answer " + std::to_string(number)) + kEnd);
    responder->End();
  });
  SharedAnswers answers;
  LoadPlan plan;
  plan.sessions = {SessionOf(0, 2)};
  plan.concurrency = 1;
  plan.answers = &answers;
  for (int side = 0; side < 2; ++side) EXPECT_EQ(RunLoad(target_, plan)->samples.size(), 2U);
  ASSERT_EQ(bodies_.size(), 4U);
  EXPECT_EQ(bodies_[3], bodies_[1]);
  EXPECT_THAT(bodies_[3], testing::HasSubstr("answer 0"));
}

TEST_F(LoadRunTest, StopsWhenAsked) {
  std::vector<std::shared_ptr<Responder>> held;
  Serve([&held](std::size_t number, const std::shared_ptr<Responder>& responder) {
    number == 0 ? AnswerWhole(*responder) : held.push_back(responder);
  });
  LoadPlan plan;
  for (std::size_t i = 0; i < 5; ++i) plan.sessions.push_back(SessionOf(i, 1));
  plan.concurrency = 1;
  plan.stop_asked = [this] {
    const std::lock_guard lock(mutex_);
    return bodies_.size() == 2;
  };
  const LoadResult result = RunLoad(target_, plan).value();
  EXPECT_TRUE(result.was_stopped);
  EXPECT_EQ(result.samples.size(), 1U);
  held.clear();
}

TEST_F(LoadRunTest, AKeyThatCanNotBeReadIsAnError) {
  target_.access.api_key_file = "/none";
  const auto result = RunLoad(target_, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().field, "api-key-file");
}

}  // namespace
}  // namespace roost::roostctl

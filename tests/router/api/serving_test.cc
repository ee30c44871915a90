// The API behind the real server, over sockets: effects that need real threads and clients. A thread of the test plays
// the link thread.
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/http/server.h"
#include "router/text/text_pool.h"
#include "tests/common/http/raw_client.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{20'000};

// Thread-safe: requests come from the server's threads, the test answers from its own.
class QueueDispatcher final : public Dispatcher {
 public:
  struct Job {
    RequestId id;
    std::vector<TokenId> prompt;
    std::shared_ptr<GenerationObserver> observer;
  };

  std::shared_ptr<const FleetSnapshot> View() const override {
    ModelDirectory directory;
    directory.has_begun = true;
    directory.models = {model_};
    directory.offers[model_->name].push_back({.served = model_});
    auto view = std::make_shared<FleetSnapshot>();
    view->models = std::make_shared<const ModelDirectory>(std::move(directory));
    return view;
  }
  Result<RequestId> Submit(GenerateSpec spec, std::shared_ptr<GenerationObserver> observer) override {
    const std::lock_guard lock(mutex_);
    const RequestId id(++last_id_);
    jobs_.push_back({id, std::move(spec.generate.prompt), std::move(observer)});
    changed_.notify_all();
    return id;
  }
  Result<RequestId> Forward(ForwardSpec /*spec*/, std::shared_ptr<ForwardObserver> /*observer*/) override {
    return Error{ErrorCode::kUnavailable, "no engine", ""};
  }
  void Grant(RequestId /*id*/, std::size_t /*bytes*/) override {}
  [[nodiscard]] Result<void> Send(Order /*order*/, AnswersDone /*done*/) override { return {}; }
  void Cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(id);
    changed_.notify_all();
  }

  Job Take() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return !jobs_.empty(); }));
    Job job = std::move(jobs_.front());
    jobs_.erase(jobs_.begin());
    return job;
  }
  bool WaitForCancel(RequestId id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return cancelled_.contains(id); });
  }

 private:
  const std::shared_ptr<const ServedModel> model_ = std::make_shared<const ServedModel>(ByteModel());
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;          // guarded by mutex_
  std::set<RequestId> cancelled_;  // guarded by mutex_
  std::uint64_t last_id_ = 0;      // guarded by mutex_
};

class ServingTest : public ::testing::Test {
 protected:
  ServingTest() {
    HttpServerOptions options;
    options.port = 0;
    options.thread_count = 2;
    server_ = std::move(HttpServer::Start(options, [this](HttpRequest request, std::shared_ptr<Responder> responder) {
                          api_.Handle(Listener::kApi, std::move(request), std::move(responder));
                        }).value());
  }

  ~ServingTest() override {
    server_.reset();
    text_.Stop();  // its jobs need the API
  }

  static std::string Post(std::string_view path, std::string_view body) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                       path, body.size(), body);
  }
  static std::string Prompt(std::string_view prompt, std::string_view members) {
    return Post("/v1/completions", fmt::format(R"({{"model":"bytes","prompt":"{}",{}}})", prompt, members));
  }
  static void Dispatch(const QueueDispatcher::Job& job) { job.observer->OnDispatched({"w1", {}}); }

  QueueDispatcher dispatcher_;
  NullApiObserver observer_;
  SteadyClock clock_;
  TextPool text_{{}};
  Api api_{dispatcher_,
           observer_,
           clock_,
           text_,
           {.version = "1",
            .seed = 1,
            .metrics_text = [] { return std::string(); },
            .unix_seconds_now = [] { return std::int64_t{1}; }}};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServingTest, StreamsOverASocket) {
  RawClient client(server_->port());
  client.Write(Prompt("hi", R"("stream":true)"));
  const QueueDispatcher::Job job = dispatcher_.Take();
  Dispatch(job);
  job.observer->OnTokens({Bytes("ab"), 1});
  job.observer->OnEnd({wire::FinishReason::kStop, std::nullopt});
  const RawResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.Header("x-roost-worker"), "w1");
  EXPECT_NE(response.body.find("\"text\":\"ab\""), std::string::npos);
  EXPECT_EQ(response.body.substr(response.body.size() - 14), "data: [DONE]\n\n");
}

TEST_F(ServingTest, FailureBeforeTheFirstTokenIsAStatusOnTheSocket) {
  RawClient client(server_->port());
  client.Write(Prompt("hi", R"("stream":true)"));
  const QueueDispatcher::Job job = dispatcher_.Take();
  Dispatch(job);
  job.observer->OnEnd({wire::FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""}});
  const RawResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(At(response.body, "/error/code"), "\"unavailable\"");
}

TEST_F(ServingTest, LeavingCancelsAtEveryPhase) {
  for (const bool streams : {false, true}) {
    for (int phase = 0; phase < 3; ++phase) {
      auto client = std::make_unique<RawClient>(server_->port());
      client->Write(Prompt("hi", streams ? R"("stream":true)" : R"("stream":false)"));
      const QueueDispatcher::Job job = dispatcher_.Take();
      if (phase >= 1) Dispatch(job);
      if (phase >= 2) job.observer->OnTokens({Bytes("a"), 0});
      if (phase >= 2 && streams) {
        ASSERT_TRUE(client->ReadUntil("\"text\":\"a\"").has_value());
      }
      client.reset();
      EXPECT_TRUE(dispatcher_.WaitForCancel(job.id)) << "phase " << phase;
      job.observer->OnTokens({Bytes("late"), std::nullopt});
      job.observer->OnEnd({wire::FinishReason::kCancelled, std::nullopt});
    }
  }
}

TEST_F(ServingTest, BadRequestsAndGoodOnesShareAConnection) {
  RawClient client(server_->port());
  client.Write(Post("/v1/completions", "{") + "GET /health HTTP/1.1\r\nHost: a\r\n\r\n" +
               "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().status, 400);
  EXPECT_EQ(client.ReadResponse().status, 200);
  EXPECT_EQ(client.ReadResponse().status, 404);
}

TEST_F(ServingTest, TwoHundredStreamsGetTheirOwnTokensInOrder) {
  constexpr int kStreams = 200;
  constexpr int kTokens = 20;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->Write(Prompt(fmt::format("{:03}", i), R"("stream":true)"));
  }
  std::vector<QueueDispatcher::Job> jobs;
  for (int i = 0; i < kStreams; ++i) jobs.push_back(dispatcher_.Take());
  for (const QueueDispatcher::Job& job : jobs) Dispatch(job);
  // Each stream is given its own prompt's digits repeatedly.
  for (int token = 0; token < kTokens; ++token) {
    for (const QueueDispatcher::Job& job : jobs) {
      job.observer->OnTokens({{job.prompt[1 + static_cast<std::size_t>(token % 3)]}});
    }
  }
  for (const QueueDispatcher::Job& job : jobs) job.observer->OnEnd({wire::FinishReason::kLength, std::nullopt});
  for (int i = 0; i < kStreams; ++i) {
    const RawResponse response = clients[static_cast<std::size_t>(i)]->ReadResponse();
    ASSERT_TRUE(response.complete);
    std::string text;
    for (std::size_t at = response.body.find("\"text\":\""); at != std::string::npos;
         at = response.body.find("\"text\":\"", at + 1)) {
      if (response.body[at + 8] != '"') text += response.body[at + 8];
    }
    std::string expected;
    for (int token = 0; token < kTokens; ++token) {
      expected += fmt::format("{:03}", i)[static_cast<std::size_t>(token % 3)];
    }
    EXPECT_EQ(text, expected);
  }
}

TEST_F(ServingTest, GenerationsThatOutliveTheServerAreHarmless) {
  RawClient client(server_->port());
  client.Write(Prompt("hi", R"("stream":true)"));
  const QueueDispatcher::Job job = dispatcher_.Take();
  Dispatch(job);
  server_.reset();
  job.observer->OnTokens({Bytes("a"), 0});
  job.observer->OnEnd({wire::FinishReason::kStop, std::nullopt});
  EXPECT_TRUE(dispatcher_.WaitForCancel(job.id));
}

}  // namespace
}  // namespace roost::router

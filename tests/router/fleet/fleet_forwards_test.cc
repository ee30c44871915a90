// Requests that engines get unread: which worker gets one, how its body and its answer travel, and what happens when a
// worker goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PassedOn final : public ForwardObserver {
 public:
  void OnPiece(ForwardPiece piece) override {
    EXPECT_FALSE(has_ended);
    if (piece.head) head = std::move(piece.head);
    body += piece.body;
    has_ended = piece.is_last;
    error = std::move(piece.error);
  }

  std::optional<ForwardHead> head;
  std::string body;
  bool has_ended = false;
  std::optional<Error> error;
};

struct FleetForwardsTest : ::testing::Test {
  FleetSim sim;

  FakeWorker& Join(const std::string& id, std::vector<std::string> routes = {"/v1/embeddings"}) {
    FakeWorker& worker = sim.AddWorker(id);
    worker.hello().routes = std::move(routes);
    worker.hello().tokenizer_digest.clear();
    worker.SayHello();
    sim.DeliverAll();
    return worker;
  }
  struct Asked {
    std::shared_ptr<PassedOn> answer = std::make_shared<PassedOn>();
    std::optional<RequestId> id;
    std::optional<Error> refusal;
  };
  Asked Ask(std::string body = "{}", std::optional<std::uint64_t> session = {}, std::optional<Duration> time = {}) {
    Asked asked;
    ForwardSpec spec;
    spec.model = sim.core.models()->Main("demo");
    spec.path = "/v1/embeddings";
    spec.body = std::make_shared<const std::string>(std::move(body));
    spec.session = session;
    if (time) spec.deadline = sim.clock.Now() + *time;
    if (spec.model == nullptr) return asked.refusal = Error(), asked;
    const Result<RequestId> taken = sim.core.Forward(std::move(spec), asked.answer, sim.clock.Now());
    taken.ok() ? void(asked.id = *taken) : void(asked.refusal = taken.error());
    sim.DeliverAll();
    return asked;
  }
  // The worker answers its oldest request whole.
  void Answer(FakeWorker& worker, std::string body) {
    ASSERT_FALSE(worker.passed().empty());
    worker.Answer({.request_id = worker.passed().begin()->first, .status = 200, .body = std::move(body), .last = true});
    worker.passed().erase(worker.passed().begin());
    sim.DeliverAll();
  }
  void Fail(FakeWorker& worker, ErrorCode code) {
    ASSERT_FALSE(worker.passed().empty());
    worker.Answer({.request_id = worker.passed().begin()->first, .last = true, .error = Error{code, "no", ""}});
    worker.passed().erase(worker.passed().begin());
    sim.DeliverAll();
  }
};

TEST_F(FleetForwardsTest, ARequestGoesToAWorkerThatNamesItsPathAndBack) {
  Join("a", {"/rerank"});
  FakeWorker& worker = Join("b");
  const Asked asked = Ask(R"({"input":"hi"})");
  ASSERT_EQ(worker.passed().size(), 1U);
  EXPECT_EQ(worker.passed().begin()->second.head.path, "/v1/embeddings");
  EXPECT_EQ(worker.passed().begin()->second.head.body_bytes, 14U);
  EXPECT_EQ(worker.passed().begin()->second.body, R"({"input":"hi"})");
  Answer(worker, "[1]");
  EXPECT_EQ(asked.answer->head.value().status, 200);
  EXPECT_EQ(asked.answer->head.value().worker_id, "b");
  EXPECT_EQ(asked.answer->body, "[1]");
  EXPECT_TRUE(asked.answer->has_ended);
  EXPECT_EQ(sim.core.forward_count(), 0U);
}

TEST_F(FleetForwardsTest, AWorkerWithoutATokenizerIsReadyAndBlind) {
  FakeWorker& worker = Join("a");
  EXPECT_EQ(worker.tokenizer_requests(), 0);
  const auto model = sim.core.models()->Main("demo");
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->has_text);
  EXPECT_TRUE(model->routes.contains("/v1/embeddings"));
  const WorkerStatus status = sim.StatusOf("a").value();
  EXPECT_TRUE(status.ready);
  EXPECT_EQ(status.state, WorkerState::kReady);
  EXPECT_EQ(status.mode, WorkerMode::kBlind);
  sim.Advance(5s);
  EXPECT_EQ(worker.tokenizer_requests(), 0);
}

TEST_F(FleetForwardsTest, WithoutAWorkerThatTakesItItIsRefused) {
  FakeWorker& worker = Join("a");
  worker.SetDraining(true);
  worker.Heartbeat();
  sim.DeliverAll();
  const Asked asked = Ask();
  ASSERT_TRUE(asked.refusal);
  EXPECT_EQ(asked.refusal->code, ErrorCode::kUnavailable);
  EXPECT_THAT(asked.refusal->message, HasSubstr("/v1/embeddings"));
}

TEST_F(FleetForwardsTest, TheLeastLoadedGetsTheNextAndEqualOnesTakeTurns) {
  std::vector<FakeWorker*> workers{&Join("a"), &Join("b"), &Join("c")};
  for (int i = 0; i < 9; ++i) Ask();
  for (FakeWorker* const worker : workers) EXPECT_EQ(worker->passed().size(), 3U) << worker->id();
  Answer(*workers[1], "");
  Answer(*workers[1], "");
  Ask();
  EXPECT_EQ(workers[1]->passed().size(), 2U);
  workers[1]->SetWaiting(10);  // of other routers
  workers[1]->Heartbeat();
  sim.DeliverAll();
  for (int i = 0; i < 4; ++i) Ask();
  EXPECT_EQ(workers[1]->passed().size(), 2U);
}

TEST_F(FleetForwardsTest, ASessionStaysWhereItWasUnlessThatWorkerHasMuchMore) {
  std::map<std::string, FakeWorker*> workers{{"a", &Join("a")}, {"b", &Join("b")}, {"c", &Join("c")}};
  std::set<std::string> homes;
  for (std::uint64_t session = 0; session < 30; ++session) {
    std::set<std::string> seen;
    for (int turn = 0; turn < 3; ++turn) {
      Ask("{}", session);
      for (auto& [id, worker] : workers) {
        if (worker->passed().empty()) continue;
        seen.insert(id);
        Answer(*worker, "");
      }
    }
    EXPECT_EQ(seen.size(), 1U);
    homes.insert(seen.begin(), seen.end());
  }
  EXPECT_EQ(homes.size(), 3U) << "sessions are spread";
  for (int i = 0; i < 30; ++i) Ask("{}", 1);
  for (const auto& [id, worker] : workers) EXPECT_GE(worker->passed().size(), 5U) << id;
}

TEST_F(FleetForwardsTest, ALongBodyGoesAsFarAsItsCredit) {
  FakeWorker& worker = Join("a");
  std::string body(3 * wire::kForwardCredit + 17, 'x');
  for (std::size_t i = 0; i < body.size(); i += 1001) body[i] = static_cast<char>('a' + i % 26);
  const Asked asked = Ask(body);
  auto& [id, passed] = *worker.passed().begin();
  EXPECT_EQ(passed.body.size(), wire::kForwardCredit);
  EXPECT_EQ(passed.head.body.size(), wire::kMaxForwardBytes);
  while (passed.body.size() < body.size()) {
    const std::size_t before = passed.body.size();
    worker.Answer({.request_id = id, .credit = 300'000});
    sim.DeliverAll();
    ASSERT_EQ(passed.body.size(), std::min(before + 300'000, body.size()));
  }
  EXPECT_TRUE(passed.body == body);
  Answer(worker, "done");
  EXPECT_TRUE(asked.answer->has_ended);
}

TEST_F(FleetForwardsTest, TheClientsProgressBecomesTheWorkersCredit) {
  FakeWorker& worker = Join("a");
  const Asked asked = Ask();
  sim.core.Grant(*asked.id, 4711);
  sim.DeliverAll();
  EXPECT_EQ(worker.passed().begin()->second.credit, 4711U);
  sim.core.Grant(RequestId(1), 1);  // unknown
}

TEST_F(FleetForwardsTest, ALostWorkersRequestsGoToTheNextUnlessTheirAnswersHaveBegun) {
  FakeWorker& first = Join("a");
  const Asked begun = Ask();
  first.Answer({.request_id = *begun.id, .status = 200, .body = "half"});
  sim.DeliverAll();
  const Asked waiting = Ask(std::string(2 * wire::kForwardCredit, 'x'));
  FakeWorker& second = Join("b");
  sim.Kill(first);
  sim.Advance(15s);
  ASSERT_EQ(second.passed().size(), 1U);
  EXPECT_EQ(second.passed().begin()->second.body.size(), wire::kForwardCredit) << "the body begins anew";
  EXPECT_TRUE(begun.answer->has_ended);
  EXPECT_EQ(begun.answer->error.value().code, ErrorCode::kUnavailable);
  Answer(second, "whole");
  EXPECT_EQ(waiting.answer->body, "whole");
  EXPECT_FALSE(waiting.answer->error);
  EXPECT_EQ(sim.metrics.retries["worker_lost"], 1);
}

TEST_F(FleetForwardsTest, AWorkerThatComesBackAnewGetsItsRequestsAgain) {
  FakeWorker& worker = Join("a");
  const Asked asked = Ask();
  worker.passed().clear();
  worker.Restart();
  worker.SayHello();
  sim.DeliverAll();
  ASSERT_EQ(worker.passed().size(), 1U);
  EXPECT_NE(worker.passed().begin()->first, *asked.id) << "an attempt of its own";
  Answer(worker, "whole");
  EXPECT_EQ(asked.answer->body, "whole");
}

TEST_F(FleetForwardsTest, ARefusalGoesToTheOthersAndThenToTheClient) {
  FakeWorker& a = Join("a");
  FakeWorker& b = Join("b");
  const Asked asked = Ask();
  FakeWorker& first = a.passed().empty() ? b : a;
  FakeWorker& second = a.passed().empty() ? a : b;
  Fail(first, ErrorCode::kOverloaded);
  EXPECT_FALSE(asked.answer->has_ended);
  Fail(second, ErrorCode::kOverloaded);
  EXPECT_TRUE(first.passed().empty());
  EXPECT_TRUE(asked.answer->has_ended);
  EXPECT_EQ(asked.answer->error.value().code, ErrorCode::kOverloaded);
  EXPECT_EQ(sim.core.forward_count(), 0U);
}

TEST_F(FleetForwardsTest, AnErrorOfTheRequestIsNotTriedAgain) {
  FakeWorker& worker = Join("a");
  Join("b");
  const Asked asked = Ask();
  FakeWorker& its = worker.passed().empty() ? *sim.workers.at("b") : worker;
  Fail(its, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(asked.answer->has_ended);
}

TEST_F(FleetForwardsTest, ACancelReachesTheWorker) {
  FakeWorker& worker = Join("a");
  const Asked asked = Ask();
  sim.core.Cancel(*asked.id);
  sim.DeliverAll();
  EXPECT_EQ(worker.cancelled().at(0), *asked.id);
  EXPECT_TRUE(asked.answer->has_ended);
  EXPECT_EQ(sim.core.forward_count(), 0U);
  worker.Answer({.request_id = *asked.id, .status = 200, .last = true});
  sim.DeliverAll();
}

TEST_F(FleetForwardsTest, ADeadlineEndsIt) {
  FakeWorker& worker = Join("a");
  const Asked asked = Ask("{}", {}, 3s);
  EXPECT_EQ(worker.passed().begin()->second.head.deadline_ms, 3000U);
  sim.Advance(4s);
  EXPECT_EQ(asked.answer->error.value().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(worker.cancelled().size(), 1U);
}

TEST_F(FleetForwardsTest, AShutdownEndsThemAll) {
  Join("a");
  const Asked asked = Ask();
  sim.core.Shutdown();
  sim.DeliverAll();
  EXPECT_TRUE(asked.answer->has_ended);
  EXPECT_TRUE(Ask().refusal);
}

// Workers die, refuse and come back; every request ends once, with the whole of one answer or an error.
TEST_F(FleetForwardsTest, EveryRequestEndsOnceWhateverTheWorkersDo) {
  Rng draw(5);
  std::vector<Asked> all;
  for (const char* const id : {"a", "b", "c"}) Join(id);
  for (int step = 0; step < 2000; ++step) {
    FakeWorker& worker = *sim.workers.at(std::string(1, static_cast<char>('a' + draw.Below(3))));
    const auto what = draw.Below(10);
    if (what < 4) {
      all.push_back(Ask(std::string(draw.Below(3 * wire::kForwardCredit), 'b')));
      if (all.back().refusal) all.pop_back();
    } else if (what < 8 && !worker.passed().empty()) {
      const RequestId id = worker.passed().begin()->first;
      if (draw.Below(4) == 0) {
        Fail(worker, draw.Below(2) == 0 ? ErrorCode::kUnavailable : ErrorCode::kOverloaded);
      } else {
        worker.Answer({.request_id = id, .status = 200, .body = "ab", .credit = 400'000});
        worker.Answer({.request_id = id, .body = "cd", .last = true});
        worker.passed().erase(id);
        sim.DeliverAll();
      }
    } else if (what == 8 && !all.empty()) {
      sim.core.Cancel(*all[draw.Below(all.size())].id);
      sim.DeliverAll();
    } else if (what == 9) {
      worker.passed().clear();
      worker.Restart();
      worker.SayHello();
      sim.DeliverAll();
    }
  }
  sim.core.Shutdown();
  sim.DeliverAll();
  for (const Asked& asked : all) {
    EXPECT_TRUE(asked.answer->has_ended);
    if (!asked.answer->error) EXPECT_EQ(asked.answer->body, "abcd");
  }
  EXPECT_EQ(sim.core.forward_count(), 0U);
}

}  // namespace
}  // namespace roost::router

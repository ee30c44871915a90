// Requests that engines get unread: which worker gets one, how its body and its answer travel, and what happens when a
// worker goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/fleet/text_pieces.h"
#include "tests/router/fleet/fleet_sim.h"
#include "tests/support/sanitized.h"

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
    usage = piece.usage;
  }

  std::optional<ForwardHead> head;
  std::string body;
  bool has_ended = false;
  std::optional<Error> error;
  std::optional<ForwardUsage> usage;
};

struct FleetForwardsTest : ::testing::Test {
  FleetSim sim;

  FakeWorker& Join(const std::string& id, std::vector<std::string> routes = {"/v1/embeddings"}) {
    FakeWorker& worker = sim.AddWorker(id);
    worker.hello().routes = std::move(routes);
    worker.hello().tokenizer_digest.clear();
    worker.hello().block_count = 1U << 23U;
    worker.SayHello();
    sim.DeliverAll();
    return worker;
  }
  struct Asked {
    std::shared_ptr<PassedOn> answer = std::make_shared<PassedOn>();
    std::optional<RequestId> id;
    std::optional<Error> refusal;
  };
  Asked Ask(std::string body = "{}", std::optional<std::uint64_t> session = {}, std::optional<Duration> time = {},
            std::vector<BlockHash> pieces = {}, std::size_t instruction_pieces = 0) {
    Asked asked;
    ForwardSpec spec;
    spec.model = sim.core.models()->Main("demo");
    spec.path = "/v1/embeddings";
    spec.body = std::make_shared<const std::string>(std::move(body));
    spec.session = session;
    spec.pieces = std::move(pieces);
    spec.instruction_pieces = instruction_pieces;
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

TEST_F(FleetForwardsTest, AWorkerWithoutATokenizerIsReadyAndPredicted) {
  FakeWorker& worker = Join("a");
  EXPECT_EQ(worker.tokenizer_requests(), 0);
  const auto model = sim.core.models()->Main("demo");
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->has_text);
  EXPECT_TRUE(model->routes.contains("/v1/embeddings"));
  const WorkerStatus status = sim.StatusOf("a").value();
  EXPECT_TRUE(status.ready);
  EXPECT_EQ(status.state, WorkerState::kReady);
  EXPECT_EQ(status.mode, WorkerMode::kPredicted);
  EXPECT_TRUE(status.is_unread);
  sim.Advance(5s);
  EXPECT_EQ(worker.tokenizer_requests(), 0);
}

TEST_F(FleetForwardsTest, AnEngineWithoutPrefixesIsBlind) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().tokenizer_digest.clear();
  worker.hello().keeps_prefixes = false;
  worker.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(sim.StatusOf("a").value().mode, WorkerMode::kBlind);
}

// ---- texts ----

// The pieces of a text: each letter is one.
std::vector<BlockHash> PiecesOf(std::string_view text) {
  TextPieces pieces{BlockHash()};
  for (const char letter : text) pieces.Append(std::string(kPieceBytes - 1, letter));
  return pieces.hashes();
}

// An answer.
struct Told {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t status = 200;
};

struct FleetTextsTest : FleetForwardsTest {
  std::map<std::string, FakeWorker*> workers;

  void JoinAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) workers[name] = &Join(name);
  }
  // Asks, and has the worker answer that gets it, which is returned.
  std::string Turn(std::string_view text, Told told = {}, std::optional<std::uint64_t> session = {}) {
    last = Ask("{}", session, {}, PiecesOf(text), instruction_pieces).answer;
    sim.clock.Advance(1s);
    for (auto& [name, worker] : workers) {
      if (worker->passed().empty()) continue;
      const RequestId id = worker->passed().begin()->first;
      worker->passed().clear();
      worker->Answer({.request_id = id, .status = told.status, .body = "x"});
      worker->Answer(
          {.request_id = id, .last = true, .prompt_tokens = told.prompt_tokens, .cached_tokens = told.cached_tokens});
      sim.DeliverAll();
      return name;
    }
    return "";
  }

  std::shared_ptr<PassedOn> last;
  std::size_t instruction_pieces = 0;
};

TEST_F(FleetTextsTest, AChatGoesWhereItsTextWas) {
  JoinAll({"a", "b", "c"});
  std::set<std::string> homes;
  for (char chat = 'A'; chat < 'M'; ++chat) {
    std::string text(3, chat);
    const std::string home = Turn(text);
    homes.insert(home);
    for (int turn = 0; turn < 4; ++turn) EXPECT_EQ(Turn(text += "xy"), home) << text;
  }
  EXPECT_EQ(homes.size(), 3U);
}

TEST_F(FleetTextsTest, TheTextCountsMoreThanTheSession) {
  JoinAll({"a", "b", "c"});
  const std::string home = Turn("AAAA", {}, 1);
  for (std::uint64_t session = 2; session < 20; ++session) EXPECT_EQ(Turn("AAAAB", {}, session), home);
}

TEST_F(FleetTextsTest, ChatsWithTheSameInstructionsAreSpread) {
  JoinAll({"a", "b", "c"});
  const std::string instructions(50, 'S');
  for (const std::size_t told : {std::size_t{0}, instructions.size()}) {
    std::map<std::string, int> homes;
    for (std::uint64_t chat = 0; chat < 26; ++chat) {
      const std::string text = (told == 0 ? "SSS" : instructions) + std::string(5, static_cast<char>('a' + chat));
      instruction_pieces = told;
      const std::string home = Turn(text, {}, chat);
      ++homes[home];
      EXPECT_EQ(Turn(text + "xy", {}, chat + 100), home) << "a chat stays";
    }
    EXPECT_EQ(homes.size(), 3U);
  }
}

TEST_F(FleetTextsTest, ALongTextIsWorthAWaitAndAShortOneIsNot) {
  JoinAll({"a", "b"});
  const std::string long_text(400, 'L');
  FakeWorker& home = *workers.at(Turn(long_text));
  FakeWorker& other = home.id() == "a" ? *workers.at("b") : *workers.at("a");
  home.SetWaiting(6);  // of other routers
  home.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(Turn(long_text + "x"), home.id());
  EXPECT_EQ(Turn("SSSS"), other.id());
  home.SetWaiting(0);
  home.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(Turn("SSSSx"), other.id());
  other.SetWaiting(3);
  other.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(Turn("SSSSxy"), home.id()) << "computing it takes less than waiting";
}

TEST_F(FleetTextsTest, WhatWasNotAnsweredIsNotCached) {
  JoinAll({"a", "b"});
  std::set<std::string> homes;
  for (std::uint64_t session = 0; session < 20; ++session) homes.insert(Turn("AAAA", {.status = 500}, session));
  EXPECT_EQ(homes.size(), 2U) << "each by its session";
}

TEST_F(FleetTextsTest, TheEnginesNumbersAreToldCountedAndCompared) {
  JoinAll({"a"});
  Turn("AAAA", {.prompt_tokens = 256});
  EXPECT_EQ(last->usage, (ForwardUsage{.prompt_tokens = 256}));
  Turn("AAAAB", {.prompt_tokens = 300, .cached_tokens = 250});
  EXPECT_EQ(last->usage, (ForwardUsage{.prompt_tokens = 300, .cached_tokens = 250, .promised_tokens = 240}));
  const WorkerStatus status = sim.StatusOf("a").value();
  EXPECT_EQ(status.totals.prompt_tokens, 556U);
  EXPECT_EQ(status.totals.cached_tokens, 250U);
  Turn("C");
  EXPECT_EQ(last->usage, std::nullopt);
}

// A server with room for two chats: what it has lost tells of the older ones too.
TEST_F(FleetTextsTest, AMissForgetsWhatWasNotUsedSinceEither) {
  JoinAll({"a"});
  for (const char* const text : {"AAAA", "BBBB", "CCCC", "DDDD"}) Turn(text, {.prompt_tokens = 256});
  Turn("BBBBx", {.prompt_tokens = 320, .cached_tokens = 10});
  EXPECT_EQ(last->usage.value().promised_tokens, 256U);
  Turn("AAAAx", {.prompt_tokens = 320});
  EXPECT_EQ(last->usage.value().promised_tokens, 0U) << "used before what was missing";
  Turn("DDDDx", {.prompt_tokens = 320, .cached_tokens = 256});
  EXPECT_EQ(last->usage.value().promised_tokens, 256U);
}

TEST_F(FleetTextsTest, AnEngineThatComesBackHasNothing) {
  JoinAll({"a"});
  Turn("AAAA", {.prompt_tokens = 256});
  workers.at("a")->SetEngineAway(5000, "connection refused");
  workers.at("a")->Heartbeat();
  sim.DeliverAll();
  workers.at("a")->SetEngineAway(0, "");
  workers.at("a")->Heartbeat();
  sim.DeliverAll();
  Turn("AAAAx", {.prompt_tokens = 320});
  EXPECT_EQ(last->usage.value().promised_tokens, 0U);
}

TEST_F(FleetTextsTest, OneWorkersTextsAreBounded) {
  JoinAll({"a"});
  const std::string long_text(kMaxPieces, 'x');
  for (char first = 'a'; first < 'z'; ++first) Turn(first + long_text);
  workers.at("a")->Heartbeat();
  sim.DeliverAll();
  EXPECT_LE(sim.StatusOf("a").value().indexed_block_count, kMaxWorkerPieces);
  EXPECT_GT(sim.StatusOf("a").value().indexed_block_count, 0U);
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
  for (int step = 0; step < (testing_support::kSanitized ? 700 : 2000); ++step) {
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
    EXPECT_TRUE(asked.answer->error || asked.answer->body == "abcd") << asked.answer->body;
  }
  EXPECT_EQ(sim.core.forward_count(), 0U);
}

}  // namespace
}  // namespace roost::router

#include "router/fleet/core/fleet_core.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

// ---- joining ----

TEST(FleetCoreTest, ModelIsServedOnceItsTokenizerWasReadAndAskedForOnce) {
  FleetSim sim;
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
  EXPECT_TRUE(sim.core.models()->models.empty());
  FakeWorker& first = sim.JoinWorker("a");
  FakeWorker& second = sim.JoinWorker("b");
  ASSERT_NE(sim.core.models()->Main("demo"), nullptr);
  EXPECT_EQ(sim.core.models()->Main("demo")->block_tokens, FakeWorker::kBlockTokens);
  EXPECT_EQ(sim.core.models()->models.size(), 1U);
  EXPECT_EQ(first.tokenizer_requests() + second.tokenizer_requests(), 1);
  EXPECT_TRUE(sim.StatusOf("a")->ready && sim.StatusOf("b")->ready);
  EXPECT_EQ(sim.metrics.resyncs["hello"], 2);
}

TEST(FleetCoreTest, WorkersOfOneMachineAreToldWhenTheirThreadsAreTooMany) {
  FleetSim sim;
  const auto join = [&](const std::string& id, std::uint64_t machine) -> FakeWorker& {
    FakeWorker& worker = sim.AddWorker(id);
    worker.hello().compute = {.threads = 8, .machine = machine, .machine_cores = 8};
    worker.SayHello();
    sim.DeliverAll();
    return worker;
  };
  const FakeWorker& first = join("a", 1);
  EXPECT_EQ(first.crowding(), wire::Crowding());
  EXPECT_EQ(join("b", 2).crowding(), wire::Crowding());
  const wire::Crowding crowding{.workers = 2, .threads = 16, .cores = 8};
  EXPECT_EQ(join("c", 1).crowding(), crowding);
  EXPECT_EQ(first.crowding(), crowding) << "those that were there are told, too";
  EXPECT_EQ(sim.StatusOf("c")->compute.threads, 8U);
}

TEST(FleetCoreTest, AnotherWorkerIsAskedForTheTokenizerWhenTheFirstIsLost) {
  FleetSim sim;
  FakeWorker& first = sim.AddWorker("a");
  sim.Kill(first);  // receives messages and never answers
  sim.core.OnMessage("a", first.hello(), sim.clock.Now());
  FakeWorker& second = sim.JoinWorker("b");
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
  EXPECT_EQ(second.tokenizer_requests(), 0);
  sim.Advance(3s);
  EXPECT_EQ(second.tokenizer_requests(), 1);
  EXPECT_NE(sim.core.models()->Main("demo"), nullptr);
}

TEST(FleetCoreTest, TokenizerThatDoesNotComeIsAskedForAgain) {
  FleetSim sim;
  FakeWorker& worker = sim.AddWorker("a");
  worker.SayHello();
  sim.DeliverOne(worker);
  sim.CarryOutEffects();
  EXPECT_EQ(worker.tokenizer_requests(), 1);
  std::erase_if(worker.outbox(), [](const auto& message) { return std::holds_alternative<wire::Tokenizer>(message); });
  sim.Advance(9s);
  EXPECT_EQ(worker.tokenizer_requests(), 1);
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
  sim.Advance(2s);
  EXPECT_EQ(worker.tokenizer_requests(), 2);
  EXPECT_NE(sim.core.models()->Main("demo"), nullptr);
}

TEST(FleetCoreTest, WorkerWithAnUnreadableTokenizerIsNotUsed) {
  FleetSim sim;
  sim.bundle_error = {BundleFault::kUnreadable, DataLoss("tokenizer.json", "truncated")};
  sim.JoinWorker("a");
  sim.Advance(3s);
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
  EXPECT_FALSE(sim.StatusOf("a")->ready);
  EXPECT_EQ(sim.workers["a"]->tokenizer_requests(), 1);
}

TEST(FleetCoreTest, RepeatedHelloIsWelcomedAgainAndChangesNothing) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  worker.SayHello();
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST(FleetCoreTest, EachModelHasItsOwnIndexWhichGoesWithItsLastWorker) {
  FleetSim sim;
  FakeWorker& first = sim.JoinWorker("a");
  FakeWorker& second = sim.AddWorker("b");
  second.hello().model = "other";
  second.SayHello();
  sim.DeliverAll();
  const std::shared_ptr<const ServedModel> demo = sim.core.models()->Main("demo");
  ASSERT_NE(sim.core.models()->Main("other"), nullptr);
  EXPECT_NE(demo->index, sim.core.models()->Main("other")->index);

  const Request request = sim.Submit(MakePrompt(1, 40), 4);
  sim.Run();
  EXPECT_EQ(demo->index->Match(BlocksOf(request.prompt)).size(), 1U);
  EXPECT_TRUE(sim.core.models()->Main("other")->index->Match(BlocksOf(request.prompt)).empty());

  first.SayBye();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.indexed_block_count(), 0U);
  EXPECT_TRUE(demo->index->Match(BlocksOf(request.prompt)).empty());  // holders of the model may still ask
  first.SayHello();
  sim.DeliverAll();
  EXPECT_NE(sim.core.models()->Main("demo")->index, demo->index);
}

TEST(FleetCoreTest, HelloThatCanNotBelongIsRefused) {
  FleetSim sim;
  const auto refused = [&](const char* id, auto change) {
    FakeWorker& worker = sim.AddWorker(id);
    change(worker.hello());
    sim.core.OnMessage(id, worker.hello(), sim.clock.Now());
    sim.CarryOutEffects();
    return !worker.welcomed();
  };
  EXPECT_TRUE(refused("a", [](wire::Hello& hello) { hello.version.major = 1; }));
  EXPECT_TRUE(refused("b", [](wire::Hello& hello) { hello.process_id = 0; }));
  EXPECT_TRUE(refused("d", [](wire::Hello& hello) { hello.block_tokens = 3; }));
  EXPECT_FALSE(refused("e", [](wire::Hello&) {}));
}

TEST(FleetCoreTest, HelloOfAnotherMajorVersionCostsTheWorkerOfThatNameNothing) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  wire::Hello hello;
  hello.version = {.major = wire::kProtocolMajor + 1, .minor = 0, .release = "9.0.0"};
  hello.worker_id = "a";
  hello.epoch = worker.hello().epoch + 1;
  sim.clock.Advance(FleetCore::kTakeOverSilence);  // so that another process of this version could have the name
  sim.core.OnMessage("stranger", hello, sim.clock.Now());
  const std::vector<Effect> effects = sim.core.TakeEffects();
  ASSERT_EQ(effects.size(), 1U);
  const auto& refused = std::get<wire::Refused>(std::get<SendToWorker>(effects.front()).message);
  EXPECT_EQ(refused.epoch, hello.epoch);
  EXPECT_NE(refused.reason.find("worker speaks protocol 3.0, release 9.0.0, the router protocol 2."), std::string::npos)
      << refused.reason;
  EXPECT_EQ(sim.core.Workers(sim.clock.Now()).size(), 1U);
}

TEST(FleetCoreTest, UnknownSenderIsAskedForItsHelloOncePerSecond) {
  FleetSim sim;
  const auto asked = [&] {
    const auto effects = sim.core.TakeEffects();
    return std::count_if(effects.begin(), effects.end(), [](const Effect& effect) {
      const auto* const send = std::get_if<SendToWorker>(&effect);
      return send != nullptr && std::holds_alternative<wire::WantHello>(send->message);
    });
  };
  for (int i = 0; i < 5; ++i) sim.core.OnMessage("a", wire::Step{}, sim.clock.Now());
  EXPECT_EQ(asked(), 1);
  sim.clock.Advance(1s);
  sim.core.OnMessage("a", wire::Snapshot{}, sim.clock.Now());
  EXPECT_EQ(asked(), 1);
  sim.core.OnMessage("b", wire::Bye{}, sim.clock.Now());
  EXPECT_EQ(asked(), 0);
}

// ---- serving ----

TEST(FleetCoreTest, TokensReachTheClientAndTheChargeIsReleased) {
  FleetSim sim;
  sim.JoinWorker("a");
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  ASSERT_TRUE(request.id.has_value());
  EXPECT_EQ(sim.StatusOf("a")->in_flight_requests, 1U);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kLength);
  EXPECT_EQ(request.observer->workers, (std::vector<std::string>{"a"}));
  EXPECT_EQ(request.observer->cached_token_count, 0U);
  EXPECT_EQ(sim.StatusOf("a")->requests_total, 1U);
  ExpectNothingCharged(sim);
}

TEST(FleetCoreTest, AnAnswerWithoutTokensTellsWhatWasCached) {
  FleetSim sim;
  sim.JoinWorker("a");
  TokenId seed = 1;
  while (!ExpectedOutput(MakePrompt(seed, 50), 4).empty()) ++seed;
  for (const std::uint32_t cached : {0U, 48U}) {
    const Request request = sim.Submit(MakePrompt(seed, 50), 4);
    sim.Run();
    ExpectWholeAnswer(request);
    EXPECT_EQ(request.observer->cached_token_count, cached);
  }
  EXPECT_EQ(sim.metrics.outcomes.size(), 2U);
  ExpectNothingCharged(sim);
}

TEST(FleetCoreTest, SecondRequestFollowsItsPrefixAndThePredictionHolds) {
  FleetSim sim;
  for (const char* id : {"a", "b", "c", "d"}) sim.JoinWorker(id);
  for (TokenId seed = 1; seed <= 10; ++seed) {
    const Request first = sim.Submit(MakePrompt(seed, 50), 4);
    sim.Run();
    const Request second = sim.Submit(MakePrompt(seed, 50), 4);
    sim.Run();
    ExpectWholeAnswer(second);
    EXPECT_EQ(second.observer->workers, first.observer->workers);
    EXPECT_EQ(second.observer->cached_token_count, 48U);
    EXPECT_EQ(second.observer->decisions.front().matched_tokens, 48U);
  }
  for (const CacheOutcome& outcome : sim.metrics.outcomes) {
    EXPECT_EQ(outcome.predicted_cached_tokens, outcome.actual_cached_tokens);
  }
}

TEST(FleetCoreTest, BurstBetweenTwoReportsIsSpread) {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  for (TokenId seed = 1; seed <= 20; ++seed) sim.Submit(MakePrompt(seed, 40), kOutput);
  sim.DeliverAll();
  EXPECT_EQ(a.received().size(), 10U);
  EXPECT_EQ(b.received().size(), 10U);
}

TEST(FleetCoreTest, HeartbeatDoesNotHideWhatWasSentSinceTheLastStep) {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  for (TokenId seed = 1; seed <= 20; ++seed) {
    sim.Submit(MakePrompt(seed, 40), kOutput);
    sim.Advance(100ms);  // heartbeats, while the first step does not end
  }
  EXPECT_EQ(a.received().size(), 10U);
  EXPECT_EQ(b.received().size(), 10U);
}

TEST(FleetCoreTest, RefusesWhatItCanNotTakeAndTheObserverHearsNothing) {
  FleetCoreOptions options;
  options.requests.max_requests = 1;
  FleetSim sim(1, "cache-aware", options);
  FakeWorker& worker = sim.JoinWorker("a");
  EXPECT_EQ(sim.Submit({}, kOutput).refusal->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(sim.Submit({1, 2}, 0).refusal->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(sim.Submit({1, 2}, 1U << 30U).refusal->code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(sim.Submit(TalkativePrompt(), kOutput).id.has_value());
  const Request second = sim.Submit(TalkativePrompt(), kOutput);
  EXPECT_EQ(second.refusal->code, ErrorCode::kOverloaded);
  sim.Run();
  EXPECT_TRUE(second.observer->workers.empty());
  EXPECT_FALSE(second.observer->end.has_value());
  EXPECT_EQ(worker.received().size(), 1U);
}

TEST(FleetCoreTest, LinkThreadThatDoesNotKeepUpIsAnAnswer) {
  FleetCoreOptions options;
  options.max_pending_effects = 4;
  FleetSim sim(1, "cache-aware", options);
  sim.JoinWorker("a");
  EXPECT_FALSE(sim.Submit(MakePrompt(1, 9), 2).refusal.has_value());
  EXPECT_FALSE(sim.Submit(MakePrompt(2, 9), 2).refusal.has_value());
  EXPECT_EQ(sim.Submit(MakePrompt(3, 9), 2).refusal->code, ErrorCode::kOverloaded);
  sim.CarryOutEffects();
  EXPECT_FALSE(sim.Submit(MakePrompt(3, 9), 2).refusal.has_value());
}

TEST(FleetCoreTest, WorkerThatGoesOnPastTheLimitIsStopped) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  const Request request = sim.Submit(MakePrompt(1, 9), 3);
  sim.DeliverAll();
  wire::Step step;
  step.epoch = worker.hello().epoch;
  step.sequence = 3;  // after the two chunks of its snapshot
  wire::TokenEvent event;
  event.request_id = *request.id;
  event.tokens = {5, 6, 7, 8};
  step.tokens = {event, event};
  sim.core.OnMessage("a", step, sim.clock.Now());
  sim.CarryOutEffects();
  EXPECT_EQ(request.observer->tokens, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kLength);
  EXPECT_EQ(worker.running_count(), 0U);
}

TEST(FleetCoreTest, ShutdownEndsAllAndRefusesMore) {
  FleetSim sim;
  FakeWorker& worker = sim.JoinWorker("a");
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  sim.core.Shutdown();
  sim.DeliverAll();
  ExpectError(request, ErrorCode::kUnavailable);
  EXPECT_EQ(worker.running_count(), 0U);
  EXPECT_EQ(sim.Submit(TalkativePrompt(), kOutput).refusal->code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace roost::router

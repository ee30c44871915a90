#include "router/fleet/fleet_core.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint32_t kOutput = 40;

std::vector<TokenId> Expected(const Request& request) {
  return ExpectedOutput(request.prompt, request.max_output_tokens);
}

// A prompt with a long answer, which leaves time for events in between.
std::vector<TokenId> TalkativePrompt(TokenId seed = 1) {
  std::vector<TokenId> prompt = MakePrompt(seed, 30);
  while (ExpectedOutput(prompt, kOutput).size() < kOutput) prompt = MakePrompt(++seed + 1000, 30);
  return prompt;
}

void ExpectWholeAnswer(const Request& request) {
  ASSERT_TRUE(request.observer->end.has_value());
  EXPECT_NE(request.observer->end->reason, wire::FinishReason::kError);
  EXPECT_EQ(request.observer->tokens, Expected(request));
}

void ExpectError(const Request& request, ErrorCode code) {
  ASSERT_TRUE(request.observer->end.has_value());
  ASSERT_TRUE(request.observer->end->error.has_value());
  EXPECT_EQ(request.observer->end->error->code, code);
}

void ExpectNothingCharged(FleetSim& sim) {
  for (const WorkerStatus& status : sim.core.Workers(sim.clock.Now())) EXPECT_EQ(status.in_flight_requests, 0U);
}

FakeWorker& Other(FakeWorker& one, FakeWorker& a, FakeWorker& b) { return &one == &a ? b : a; }

// ---- joining ----

TEST(FleetCoreTest, ModelIsServedOnceItsTokenizerWasReadAndAskedForOnce) {
  FleetSim sim;
  EXPECT_EQ(sim.core.FindModel("demo"), nullptr);
  EXPECT_TRUE(sim.core.Models().empty());
  FakeWorker& first = sim.JoinWorker("a");
  FakeWorker& second = sim.JoinWorker("b");
  ASSERT_NE(sim.core.FindModel("demo"), nullptr);
  EXPECT_EQ(sim.core.FindModel("demo")->block_tokens, FakeWorker::kBlockTokens);
  EXPECT_EQ(sim.core.Models().size(), 1U);
  EXPECT_EQ(first.tokenizer_requests() + second.tokenizer_requests(), 1);
  EXPECT_TRUE(sim.StatusOf("a")->ready && sim.StatusOf("b")->ready);
  EXPECT_EQ(sim.metrics.resyncs["hello"], 2);
}

TEST(FleetCoreTest, AnotherWorkerIsAskedForTheTokenizerWhenTheFirstIsLost) {
  FleetSim sim;
  FakeWorker& first = sim.AddWorker("a");
  sim.Kill(first);  // receives messages and never answers
  sim.core.OnMessage("a", first.hello(), sim.clock.Now());
  FakeWorker& second = sim.JoinWorker("b");
  EXPECT_EQ(sim.core.FindModel("demo"), nullptr);
  EXPECT_EQ(second.tokenizer_requests(), 0);
  sim.Advance(3s);
  EXPECT_EQ(second.tokenizer_requests(), 1);
  EXPECT_NE(sim.core.FindModel("demo"), nullptr);
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
  EXPECT_EQ(sim.core.FindModel("demo"), nullptr);
  sim.Advance(2s);
  EXPECT_EQ(worker.tokenizer_requests(), 2);
  EXPECT_NE(sim.core.FindModel("demo"), nullptr);
}

TEST(FleetCoreTest, WorkerWithAnUnreadableTokenizerIsNotUsed) {
  FleetSim sim;
  sim.bundle_error = {BundleFault::kUnreadable, DataLoss("tokenizer.json", "truncated")};
  sim.JoinWorker("a");
  sim.Advance(3s);
  EXPECT_EQ(sim.core.FindModel("demo"), nullptr);
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
  const std::shared_ptr<const ServedModel> demo = sim.core.FindModel("demo");
  ASSERT_NE(sim.core.FindModel("other"), nullptr);
  EXPECT_NE(demo->index, sim.core.FindModel("other")->index);

  const Request request = sim.Submit(MakePrompt(1, 40), 4);
  sim.Run();
  EXPECT_EQ(demo->index->Match(BlocksOf(request.prompt)).size(), 1U);
  EXPECT_TRUE(sim.core.FindModel("other")->index->Match(BlocksOf(request.prompt)).empty());

  first.SayBye();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.indexed_block_count(), 0U);
  EXPECT_TRUE(demo->index->Match(BlocksOf(request.prompt)).empty());  // whoever still holds the model may still ask
  first.SayHello();
  sim.DeliverAll();
  EXPECT_NE(sim.core.FindModel("demo")->index, demo->index);
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

// ---- losing workers ----

struct TwoWorkers : ::testing::Test {
  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");
  FakeWorker& b = sim.JoinWorker("b");
  Request request = sim.Submit(TalkativePrompt(), kOutput);

  FakeWorker& Serving() { return *sim.workers.at(request.observer->workers.back()); }
  FakeWorker& Spare() { return Other(Serving(), a, b); }
  void Start(int steps) {
    sim.DeliverAll();
    for (int i = 0; i < steps; ++i) {
      Serving().Step();
      sim.DeliverAll();
    }
  }
};
using FleetCoreFailureTest = TwoWorkers;

TEST_F(FleetCoreFailureTest, SilentWorkerIsLostAfterTheTimeoutAndItsBlocksWithIt) {
  Start(2);
  FakeWorker& dead = Serving();
  EXPECT_GT(sim.core.indexed_block_count(), 0U);
  sim.Kill(dead);
  sim.Advance(1900ms);
  EXPECT_TRUE(sim.StatusOf(dead.id()).has_value());
  sim.Advance(300ms);
  EXPECT_FALSE(sim.StatusOf(dead.id()).has_value());
  EXPECT_EQ(sim.metrics.lost["silent"], 1);
  EXPECT_EQ(sim.core.indexed_block_count(), 0U);
}

TEST_F(FleetCoreFailureTest, WorkerLostBeforeTheFirstTokenIsNotNoticedByTheClient) {
  Start(0);
  sim.Kill(Serving());
  sim.Advance(3s);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->workers.size(), 2U);
  EXPECT_EQ(sim.metrics.retries["worker_lost"], 1);
  ExpectNothingCharged(sim);
}

TEST_F(FleetCoreFailureTest, WorkerLostMidStreamIsContinuedTokenForToken) {
  Start(3);
  const std::size_t so_far = request.observer->tokens.size();
  ASSERT_GT(so_far, 2U);
  FakeWorker& spare = Spare();
  sim.Kill(Serving());
  sim.Advance(3s);
  ASSERT_EQ(spare.received().size(), 1U);
  const wire::Generate& second = spare.received().front();
  EXPECT_EQ(second.first_output_index, so_far);
  EXPECT_EQ(second.max_output_tokens, kOutput - so_far);
  EXPECT_EQ(second.prompt.size(), request.prompt.size() + so_far);
  EXPECT_EQ(second.block_hashes, BlocksOf(second.prompt));
  EXPECT_NE(second.request_id, *request.id);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->cached_token_count, 0U);
  EXPECT_EQ(sim.metrics.outcomes.size(), 1U);
}

TEST_F(FleetCoreFailureTest, WithoutAnotherWorkerTheStreamEndsWithAnError) {
  Start(2);
  sim.Kill(a);
  sim.Kill(b);
  sim.Advance(5s);
  ExpectError(request, ErrorCode::kUnavailable);
  EXPECT_FALSE(request.observer->tokens.empty());
  EXPECT_EQ(sim.core.FindModel("demo"), nullptr);
}

TEST_F(FleetCoreFailureTest, UnreachableMalformedAndDepartedWorkersAreGoneAtOnce) {
  Start(1);
  sim.core.OnUnreachable(Serving().id(), sim.clock.Now());
  sim.CarryOutEffects();
  EXPECT_EQ(sim.metrics.lost["unreachable"], 1);
  const std::string second = request.observer->workers.back();
  sim.core.OnMalformed(second, DataLoss("frame", "garbage"), sim.clock.Now());
  sim.CarryOutEffects();
  EXPECT_EQ(sim.metrics.lost["broken_link"], 1);
  ExpectError(request, ErrorCode::kUnavailable);  // no worker is left
  FakeWorker& third = sim.JoinWorker("c");
  third.SayBye();
  sim.DeliverAll();
  EXPECT_FALSE(sim.StatusOf("c").has_value());
  sim.core.OnUnreachable("c", sim.clock.Now());
  sim.core.OnMalformed("c", DataLoss("frame", "garbage"), sim.clock.Now());
  EXPECT_EQ(sim.metrics.lost.size(), 2U);  // a worker that says bye is not lost
}

TEST_F(FleetCoreFailureTest, RestartedWorkerStartsFreshAndMayTakeItsOldRequests) {
  Start(3);
  FakeWorker& restarted = Serving();
  sim.Kill(Spare());
  sim.Advance(2500ms);
  restarted.Restart();
  restarted.SayHello();
  sim.DeliverAll();
  EXPECT_EQ(sim.metrics.lost["restarted"], 1);
  EXPECT_EQ(sim.StatusOf(restarted.id())->indexed_block_count, 0U);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_TRUE(sim.ViewIsExact(restarted));
  EXPECT_EQ(request.observer->workers.back(), restarted.id());
}

TEST_F(FleetCoreFailureTest, RetriesAreBounded) {
  Start(0);
  sim.JoinWorker("c");
  sim.JoinWorker("d");
  for (int i = 0; i < 3; ++i) {
    sim.core.OnUnreachable(request.observer->workers.back(), sim.clock.Now());
    sim.CarryOutEffects();
  }
  ExpectError(request, ErrorCode::kUnavailable);
  EXPECT_EQ(request.observer->workers.size(), 3U);
  EXPECT_EQ(sim.metrics.retries["worker_lost"], 2);
}

TEST_F(FleetCoreFailureTest, FullWorkerSendsTheRequestToTheOther) {
  a.SetFull(true);
  b.SetFull(true);
  sim.DeliverAll();
  Spare().SetFull(false);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(sim.metrics.retries["overloaded"], 1);
}

TEST_F(FleetCoreFailureTest, DrainingWorkerEndsWhatItHasAndGetsNothingNew) {
  Start(1);
  FakeWorker& draining = Serving();
  FakeWorker& spare = Spare();
  const std::size_t had = draining.received().size();
  sim.Advance(300ms);
  draining.Step();  // covers the first request: it is past its prefill
  sim.DeliverAll();
  draining.SetDraining(true);
  const Request crossing = sim.Submit(draining.received().front().prompt, kOutput);  // follows the prefix
  sim.Run();
  ExpectWholeAnswer(request);
  ExpectWholeAnswer(crossing);
  EXPECT_EQ(draining.received().size(), had + 1);
  EXPECT_EQ(sim.metrics.retries["unavailable"], 1);
  const Request later = sim.Submit(request.prompt, kOutput);
  sim.Run();
  EXPECT_EQ(later.observer->workers, (std::vector<std::string>{spare.id()}));
}

TEST_F(FleetCoreFailureTest, GapLosesTheLinkAndNotTheRequest) {
  Start(1);
  FakeWorker& broken = Serving();
  broken.Step();
  broken.outbox().pop_back();  // tokens are lost
  broken.Step();
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(sim.metrics.lost["broken_link"], 1);
  EXPECT_EQ(sim.metrics.resyncs["gap"], 1);
  sim.Advance(1s);
  EXPECT_TRUE(sim.ViewIsExact(broken));
}

TEST_F(FleetCoreFailureTest, DuplicateIsIgnored) {
  Start(1);
  Serving().Step();
  Serving().outbox().push_back(Serving().outbox().back());
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST_F(FleetCoreFailureTest, DriftIsHealedByASnapshotAndRequestsGoOn) {
  Start(2);
  FakeWorker& drifting = Serving();
  drifting.EvictSilently(2);
  drifting.Step();
  sim.DeliverAll();
  EXPECT_EQ(sim.metrics.resyncs["digest"], 1);
  EXPECT_TRUE(sim.ViewIsExact(drifting));
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->workers.size(), 1U);
}

TEST_F(FleetCoreFailureTest, SnapshotThatDoesNotComeIsAskedForAgain) {
  Start(1);
  FakeWorker& drifting = Serving();
  drifting.EvictSilently(1);
  drifting.Step();
  sim.DeliverOne(drifting);
  static_cast<void>(sim.core.TakeEffects());  // the request for a snapshot is lost
  EXPECT_FALSE(sim.StatusOf(drifting.id())->index_in_sync);
  for (int i = 0; i < 15; ++i) {
    sim.clock.Advance(100ms);
    drifting.Step();
    sim.DeliverAll();
    sim.Tick();
  }
  EXPECT_TRUE(sim.ViewIsExact(drifting));
}

TEST_F(FleetCoreFailureTest, OwnPauseIsNotTheWorkersSilence) {
  Start(1);
  sim.clock.Advance(30s);
  sim.Tick();
  EXPECT_TRUE(sim.metrics.lost.empty());
  sim.Kill(a);
  sim.Kill(b);
  sim.Advance(3s);
  EXPECT_EQ(sim.metrics.lost["silent"], 2);
}

TEST_F(FleetCoreFailureTest, WorkersArePingedEachSecond) {
  int pings = 0;
  for (int tick = 0; tick < 20; ++tick) {
    sim.clock.Advance(100ms);
    sim.Tick();
    for (const Effect& effect : sim.core.TakeEffects()) {
      const auto* const send = std::get_if<SendToWorker>(&effect);
      if (send != nullptr && std::holds_alternative<wire::Ping>(send->message)) ++pings;
    }
  }
  EXPECT_EQ(pings, 2 * 2);
}

TEST_F(FleetCoreFailureTest, PingsTellWhichGeneratesTheWorkersLifeWasSent) {
  const auto digests = [&] {
    std::map<std::string, std::optional<std::uint64_t>> told;
    sim.clock.Advance(1s);
    sim.Tick();
    for (const Effect& effect : sim.core.TakeEffects()) {
      const auto* const send = std::get_if<SendToWorker>(&effect);
      if (send == nullptr) continue;
      if (const auto* ping = std::get_if<wire::Ping>(&send->message)) told[send->identity] = ping->generate_digest;
    }
    return told;
  };
  const auto received = [](const FakeWorker& worker, std::size_t from) {
    std::uint64_t digest = 0;
    for (std::size_t i = from; i < worker.received().size(); ++i) {
      digest ^= wire::MixedId(worker.received()[i].request_id);
    }
    return digest;
  };
  sim.CarryOutEffects();
  for (TokenId seed = 1; seed <= 3; ++seed) sim.Submit(MakePrompt(seed, 40), kOutput);
  sim.CarryOutEffects();
  const auto told = digests();
  EXPECT_EQ(told.at("a"), received(a, 0));
  EXPECT_EQ(told.at("b"), received(b, 0));
  EXPECT_NE(told.at("a"), 0U);
  const std::size_t sent_before = a.received().size();
  sim.Revive(a);  // the requests that it had are sent again, some to its new life
  sim.DeliverAll();
  EXPECT_EQ(digests().at("a"), received(a, sent_before));
}

}  // namespace
}  // namespace roost::router

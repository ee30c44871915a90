// Workers that are lost, restart, drain, are full or lose messages; what becomes of their requests and blocks.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

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
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
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

// The worker that has the request is lost, and comes back empty.
void LoseServing(FleetSim& sim, const Request& request) {
  FakeWorker& lost = *sim.workers.at(request.observer->workers.back());
  sim.core.OnUnreachable(lost.id(), sim.clock.Now());
  sim.CarryOutEffects();
  lost.Restart();
  lost.SayHello();
  sim.DeliverAll();
}

void TakeTokens(FleetSim& sim, const Request& request, std::size_t count) {
  const std::size_t until = request.observer->tokens.size() + count;
  while (request.observer->tokens.size() < until) {
    ASSERT_FALSE(request.observer->end.has_value());
    sim.workers.at(request.observer->workers.back())->Step();
    sim.DeliverAll();
  }
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
  EXPECT_EQ(request.observer->end->error->message, "3 workers in turn were lost or gave the request up");
  EXPECT_EQ(request.observer->workers.size(), 3U);
  EXPECT_EQ(sim.metrics.retries["worker_lost"], 2);
}

// As the ranks of an engine that has died: each of them leaves, and gives back what it has not begun.
TEST_F(FleetCoreFailureTest, RefusalsOfWorkersThatLeaveAreNoFailures) {
  for (const char* const name : {"c", "d", "e", "f"}) sim.JoinWorker(name);
  const Request answer = sim.Submit(MakePrompt(8, 40), 5);
  sim.DeliverAll();
  for (int i = 0; i < 5; ++i) {
    FakeWorker& worker = *sim.workers.at(answer.observer->workers.back());
    worker.GiveUp(worker.received().back().request_id, {ErrorCode::kUnavailable, "the engine is away", ""});
    sim.DeliverAll();
  }
  sim.Run();
  ASSERT_TRUE(answer.observer->end.has_value());
  EXPECT_FALSE(answer.observer->end->error.has_value());
  EXPECT_EQ(answer.observer->workers.size(), 6U);
}

// Without stop tokens.
Request SubmitLong(FleetSim& sim, std::uint32_t tokens) {
  GenerateSpec wishes;
  wishes.generate.min_output_tokens = tokens;
  return sim.Submit(MakePrompt(7, 40), tokens, wishes);
}

TEST_F(FleetCoreFailureTest, LongAnswerGetsItsTriesBack) {
  const Request answer = SubmitLong(sim, 16 * 128);
  sim.DeliverAll();
  for (int i = 0; i < 8; ++i) {
    TakeTokens(sim, answer, 128);
    LoseServing(sim, answer);
  }
  sim.Run(16 * 128);
  ASSERT_TRUE(answer.observer->end.has_value());
  EXPECT_EQ(answer.observer->tokens, ExpectedOutput(answer.prompt, 16 * 128, 0, 16 * 128));
}

TEST_F(FleetCoreFailureTest, TooFewTokensBetweenLossesGiveNoTriesBack) {
  const Request answer = SubmitLong(sim, 16 * 128);
  sim.DeliverAll();
  for (int i = 0; i < 3; ++i) {
    TakeTokens(sim, answer, 120);
    LoseServing(sim, answer);
  }
  ExpectError(answer, ErrorCode::kUnavailable);
}

TEST_F(FleetCoreFailureTest, LossesOfOneAnswerAreBounded) {
  const Request answer = SubmitLong(sim, 32 * 128);
  sim.DeliverAll();
  for (int i = 0; i < 17; ++i) {
    ASSERT_FALSE(answer.observer->end.has_value()) << "after " << i;
    TakeTokens(sim, answer, 128);
    LoseServing(sim, answer);
  }
  ExpectError(answer, ErrorCode::kUnavailable);
  EXPECT_EQ(answer.observer->end->error->message, "17 workers in turn were lost or gave the request up");
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
  const Request crossing = sim.Submit(draining.received().front().prompt, 2);  // follows the prefix
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

// The router was stopped for so long that its workers hung up, and connect again.
struct PausedRouter : TwoWorkers {
  void Pause() {
    Start(1);
    sim.clock.Advance(9s);
    for (FakeWorker* worker : {&a, &b}) {
      sim.core.OnUnreachable(worker->identity(), sim.clock.Now());
      sim.Kill(*worker);  // nothing reaches it on its old connection
    }
    sim.CarryOutEffects();
  }
};

TEST_F(PausedRouter, WorkersThatHungUpMeanwhileAreNotLostAndRequestsWaitForThem) {
  Pause();
  sim.Tick();
  const Request later = sim.Submit(MakePrompt(9, 30), 4);
  EXPECT_FALSE(later.refusal.has_value());
  sim.Advance(500ms);
  EXPECT_FALSE(later.observer->end.has_value());
  sim.Revive(a);
  sim.Revive(b);
  sim.Run();
  EXPECT_EQ(sim.metrics.lost.count("unreachable") + sim.metrics.lost.count("silent"), 0U);
  ExpectWholeAnswer(request);
  ExpectWholeAnswer(later);
}

TEST_F(PausedRouter, OneThatDoesNotComeBackIsLost) {
  Pause();
  sim.Advance(1900ms);
  EXPECT_TRUE(sim.metrics.lost.empty());
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kEjected);
  sim.Advance(300ms);
  EXPECT_EQ(sim.metrics.lost["unreachable"], 2);
  sim.JoinWorker("c");
  sim.core.OnUnreachable("c", sim.clock.Now());
  EXPECT_EQ(sim.metrics.lost["unreachable"], 3);  // the pause is over
}

TEST_F(FleetCoreFailureTest, SilenceIsJudgedByWhatHasComeNotByWhatWasRead) {
  Start(1);
  for (int i = 0; i < 21; ++i) {
    sim.clock.Advance(100ms);
    sim.core.Tick(sim.clock.Now(), i < 5 ? FleetCore::Inbox::kRead : FleetCore::Inbox::kMoreWaits);
  }
  EXPECT_TRUE(sim.metrics.lost.empty());
  for (int i = 0; i < 5; ++i) {
    sim.clock.Advance(100ms);
    sim.core.Tick(sim.clock.Now(), FleetCore::Inbox::kMoreWaits);
  }
  EXPECT_EQ(sim.metrics.lost["silent"], 2);  // it is never all read
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

TEST_F(FleetCoreFailureTest, PingsTellTheOnlyWorkerOfARevisionThatItIs) {
  const auto sole = [&] {
    std::set<std::string> told;
    sim.clock.Advance(1s);
    for (FakeWorker* worker : {&a, &b}) worker->Heartbeat();
    sim.DeliverAll();
    sim.Tick();
    for (const Effect& effect : sim.core.TakeEffects()) {
      const auto* const send = std::get_if<SendToWorker>(&effect);
      if (send == nullptr) continue;
      const auto* const ping = std::get_if<wire::Ping>(&send->message);
      if (ping != nullptr && ping->sole) told.insert(send->identity);
    }
    return told;
  };
  EXPECT_EQ(sole(), std::set<std::string>());
  a.SetDraining(true);
  EXPECT_EQ(sole(), (std::set<std::string>{"b"}));
  b.SetDraining(true);
  EXPECT_EQ(sole(), (std::set<std::string>{"a", "b"}));
  a.SetDraining(false);
  EXPECT_EQ(sole(), (std::set<std::string>{"a"}));
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

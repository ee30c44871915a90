// The identity of workers: names, processes and connections.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

struct FleetNamesTest : ::testing::Test {
  FleetSim sim;
  FakeWorker& first = sim.JoinWorker("a");

  // Another process with the first one's name, over its own connection.
  FakeWorker& SecondProcess() {
    auto& second = sim.workers["a, second"];
    second = std::make_unique<FakeWorker>("a", 99);
    second->Reconnect();
    return *second;
  }
};

TEST_F(FleetNamesTest, ANameThatAnotherProcessHasIsRefusedWhileThatOneSpeaks) {
  FakeWorker& second = SecondProcess();
  for (int i = 0; i < 5; ++i) {
    second.SayHello();
    sim.Advance(1s);
  }
  EXPECT_FALSE(second.welcomed());
  ASSERT_FALSE(second.refusals().empty());
  EXPECT_NE(second.refusals().back().reason.find("another process serves under the name a"), std::string::npos);
  EXPECT_EQ(second.refusals().back().cause, wire::RefusalCause::kNameTaken);
  EXPECT_TRUE(sim.metrics.lost.empty());
  const auto request = sim.Submit(MakePrompt(1, 20), 4);
  sim.Run();
  EXPECT_FALSE(request.observer->end->error.has_value());
  EXPECT_EQ(first.received().size(), 1U);
  EXPECT_TRUE(second.received().empty());
}

TEST_F(FleetNamesTest, ANameIsFreeOnceItsProcessHasLeft) {
  FakeWorker& second = SecondProcess();
  first.SayBye();
  second.SayHello();
  sim.DeliverAll();
  EXPECT_TRUE(second.welcomed());
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST_F(FleetNamesTest, NothingIsShownOfAWorkerThatIsGone) {
  FakeWorker& other = sim.JoinWorker("b");
  sim.Advance(1s);
  EXPECT_EQ(sim.metrics.series, (std::set<std::string>{"a", "b"}));
  first.SayBye();
  sim.Advance(1s);
  EXPECT_EQ(sim.metrics.series, std::set<std::string>{"b"});
  sim.Kill(other);
  sim.Advance(5s);
  EXPECT_TRUE(sim.metrics.series.empty());
}

TEST_F(FleetNamesTest, ANameIsTakenOverAfterTwoSecondsOfSilenceHoweverPatientTheRouterIs) {
  FleetCoreOptions options;
  options.worker_timeout = 60s;
  FleetSim patient(1, "cache-aware", options);
  FakeWorker& silent = patient.JoinWorker("a");
  silent.outbox().clear();
  auto& second = patient.workers["a, second"];
  second = std::make_unique<FakeWorker>("a", 99);
  second->Reconnect();
  patient.clock.Advance(1900ms);
  second->SayHello();
  patient.DeliverAll();
  EXPECT_FALSE(second->welcomed());
  patient.clock.Advance(200ms);
  second->SayHello();
  patient.DeliverAll();
  EXPECT_TRUE(second->welcomed());
  EXPECT_EQ(patient.metrics.lost["restarted"], 1);
}

TEST_F(FleetNamesTest, AHelloProbesTheConnectionThatHasItsName) {
  FakeWorker& second = SecondProcess();
  sim.core.OnMessage(second.identity(), second.hello(), sim.clock.Now());
  bool probed = false;
  for (const Effect& effect : sim.core.TakeEffects()) {
    const auto* const send = std::get_if<SendToWorker>(&effect);
    probed = probed || (send != nullptr && send->identity == first.identity());
  }
  EXPECT_TRUE(probed);
  sim.core.OnUnreachable(first.identity(), sim.clock.Now());  // the result
  second.SayHello();
  sim.DeliverAll();
  EXPECT_TRUE(second.welcomed());
}

TEST_F(FleetNamesTest, TheSameProcessTakesItsLinkOverToANewConnection) {
  const auto request = sim.Submit(MakePrompt(1, 20), 8);
  sim.DeliverAll();
  first.Reconnect();
  first.SayHello();  // with the current epoch: nothing was lost
  sim.Run();
  EXPECT_FALSE(request.observer->end->error.has_value());
  EXPECT_EQ(request.observer->workers.size(), 1U);
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST_F(FleetNamesTest, AStepOverAnUnknownConnectionIsAskedForItsHello) {
  first.Reconnect();
  first.Heartbeat();
  sim.DeliverAll();
  EXPECT_TRUE(first.welcomed());  // under a new epoch
  EXPECT_EQ(sim.metrics.lost["restarted"], 1);
  EXPECT_TRUE(sim.ViewIsExact(first));
}

TEST_F(FleetNamesTest, WhatComesOverAnOldConnectionIsNobodys) {
  const std::string old_identity = first.identity();
  first.Reconnect();
  first.SayHello();
  sim.DeliverAll();
  sim.core.OnUnreachable(old_identity, sim.clock.Now());
  sim.core.OnMalformed(old_identity, DataLoss("frame", "garbage"), sim.clock.Now());
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST_F(FleetNamesTest, AConnectionIsOneWorkers) {
  wire::Hello other = first.hello();
  other.worker_id = "b";
  sim.core.OnMessage(first.identity(), other, sim.clock.Now());
  EXPECT_FALSE(sim.StatusOf("a").has_value());
  EXPECT_TRUE(sim.StatusOf("b").has_value());
}

TEST_F(FleetNamesTest, AHelloThatItsKeyDoesNotAllowIsRefusedAndTakesNothing) {
  FakeWorker& second = SecondProcess();
  second.hello().process_id = first.hello().process_id;  // a copy of the first one's hello
  second.hello().epoch = first.hello().epoch;
  sim.core.RefuseHello(second.identity(), second.hello(),
                       Error{ErrorCode::kUnauthenticated, "key k may not", "worker_id"}, sim.clock.Now());
  sim.CarryOutEffects();
  ASSERT_EQ(second.refusals().size(), 1U);
  EXPECT_EQ(second.refusals().back().reason, "worker_id: key k may not");
  EXPECT_TRUE(sim.metrics.lost.empty());
  const auto request = sim.Submit(MakePrompt(1, 20), 4);
  sim.Run();
  EXPECT_FALSE(request.observer->end->error.has_value());
  EXPECT_EQ(first.received().size(), 1U);
}

// Its key was allowed the first name, and is used for another one now.
TEST_F(FleetNamesTest, AConnectionWhoseHelloIsRefusedIsNoWorkersAnyMore) {
  wire::Hello other = first.hello();
  other.worker_id = "b";
  sim.core.RefuseHello(first.identity(), other, Error{ErrorCode::kUnauthenticated, "key k may not", "worker_id"},
                       sim.clock.Now());
  EXPECT_FALSE(sim.StatusOf("a").has_value());
  EXPECT_FALSE(sim.StatusOf("b").has_value());
}

}  // namespace
}  // namespace roost::router

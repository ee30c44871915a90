// The router's memory of lost workers and of models, and the requests that it holds for workers about to come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "router/fleet/core/fleet_journal.h"
#include "router/fleet/core/model_arrivals.h"
#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct FleetStandingTest : ::testing::Test {
  FleetSim sim;

  FleetStanding Standing() { return sim.core.Standing(sim.clock.Now()); }
  ModelStanding Demo() {
    const FleetStanding standing = Standing();
    EXPECT_THAT(standing.models, SizeIs(1));
    return standing.models.empty() ? ModelStanding() : standing.models.front();
  }
};

TEST_F(FleetStandingTest, ALostWorkerStaysVisibleForTenMinutesWithWhatBecameOfItsRequests) {
  sim.JoinWorker("a");
  sim.JoinWorker("b");
  FleetSim::Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  FakeWorker& dead = *sim.workers.at(request.observer->workers.back());
  sim.Kill(dead);
  sim.Advance(3s);
  const FleetStanding standing = Standing();
  ASSERT_THAT(standing.lost, SizeIs(1));
  const LostWorker& lost = standing.lost.front();
  EXPECT_EQ(lost.worker_id, dead.id());
  EXPECT_EQ(lost.model, "demo");
  EXPECT_EQ(lost.reason, "silent");
  EXPECT_NEAR(lost.seconds_ago, 0.9, 0.3);
  EXPECT_EQ(lost.requests, (Aftermath{.moved = 1, .waiting = 0, .failed = 0}));
  EXPECT_FALSE(lost.is_back);
  ASSERT_FALSE(standing.events.empty());
  EXPECT_EQ(standing.events.front().worker_id, dead.id());
  EXPECT_EQ(standing.events.front().what, "lost (silent): 1 request continues elsewhere");
  EXPECT_EQ(Demo().workers.ready(), 1U);
  sim.Run();
  sim.Revive(dead);
  sim.Advance(1s);
  EXPECT_TRUE(Standing().lost.front().is_back);
  sim.Advance(9min);
  EXPECT_THAT(Standing().lost, SizeIs(1));
  sim.Advance(1min);
  EXPECT_THAT(Standing().lost, IsEmpty());
}

TEST_F(FleetStandingTest, RequestsThatNobodyElseCanTakeHaveFailed) {
  FakeWorker& only = sim.JoinWorker("a");
  FleetSim::Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  sim.Kill(only);
  sim.Advance(3s);
  ASSERT_THAT(Standing().lost, SizeIs(1));
  EXPECT_EQ(Standing().lost.front().requests, (Aftermath{.moved = 0, .waiting = 0, .failed = 1}));
}

TEST_F(FleetStandingTest, AModelThatLostItsWorkersKeepsItsZerosAndSinceWhen) {
  FakeWorker& only = sim.JoinWorker("a");
  sim.Advance(5s);
  EXPECT_EQ(sim.metrics.models.at("demo").ready(), 1U);
  sim.Kill(only);
  sim.Advance(2300ms);
  EXPECT_EQ(sim.metrics.models.at("demo").all(), 0U);
  sim.Advance(20min);
  EXPECT_EQ(sim.metrics.models.count("demo"), 1U) << "it was lost, and alerts must go on";
  EXPECT_NEAR(Demo().seconds, 20 * 60, 1);
}

TEST_F(FleetStandingTest, AModelWhoseLastWorkerLeftOnItsOwnIsForgottenAfterTenMinutes) {
  FakeWorker& only = sim.JoinWorker("a");
  sim.Advance(1s);
  only.SayBye();
  sim.DeliverAll();
  sim.workers.erase("a");
  sim.Advance(9min);
  EXPECT_EQ(Demo().workers.all(), 0U);
  EXPECT_TRUE(Demo().left_on_its_own);
  sim.Advance(2min);
  EXPECT_THAT(Standing().models, IsEmpty());
  EXPECT_THAT(sim.metrics.models, IsEmpty());
}

TEST_F(FleetStandingTest, ARestartedEpochIsALossThatIsBack) {
  FakeWorker& a = sim.JoinWorker("a");
  sim.Kill(a);
  sim.Revive(a);
  sim.Advance(3s);
  ASSERT_THAT(Standing().lost, SizeIs(1));
  EXPECT_TRUE(Standing().lost.front().is_back);
  EXPECT_EQ(Demo().workers.ready(), 1U);
}

TEST(FleetJournalTest, KeepsABoundedNumberOfEventsAndLosses) {
  FleetJournal journal;
  const Instant now = Instant() + 1h;
  for (int i = 0; i < 1000; ++i) {
    journal.OnJoined("w" + std::to_string(i), "demo", now);
    journal.OnLost("w" + std::to_string(i), "demo", LostReason::kSilent, {}, now);
  }
  const FleetStanding standing = journal.StandingAt(now);
  EXPECT_THAT(standing.lost, SizeIs(FleetJournal::kMaxLost));
  EXPECT_EQ(standing.lost.front().worker_id, "w999");
  EXPECT_THAT(standing.events, SizeIs(FleetJournal::kMaxEvents));
  EXPECT_EQ(standing.events.front().what, "lost (silent): it had no requests");
}

TEST(FleetJournalTest, TellsEachChangeOfStateOnceAndWhenAModelIsServed) {
  FleetJournal journal;
  Instant now = Instant() + 1h;
  const auto observe = [&](WorkerState state) {
    now += 1s;
    static_cast<void>(journal.Observe({{"a", "demo", state}}, now));
  };
  journal.OnJoined("a", "demo", now);
  observe(WorkerState::kStarting);
  observe(WorkerState::kReady);
  observe(WorkerState::kReady);
  observe(WorkerState::kCordoned);
  std::vector<std::string> told;
  for (const FleetEvent& event : journal.StandingAt(now).events) told.push_back(event.what);
  EXPECT_THAT(told, ElementsAre("no worker takes requests", "cordoned", "is served", "ready", "joined"));
}

TEST_F(FleetStandingTest, AWorkerWhoseEngineIsAwayIsNotOneThatDrains) {
  FakeWorker& a = sim.JoinWorker("a");
  EXPECT_EQ(Demo().workers.ready(), 1U);
  a.SetEngineAway(250, "connection refused");
  a.Heartbeat();
  sim.DeliverAll();
  sim.Tick();
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kAway);
  EXPECT_EQ(Standing().events.front().what, "no worker takes requests");
  EXPECT_EQ(Standing().events.at(1).what, "its engine can not be reached (connection refused)");
  EXPECT_TRUE(Standing().lost.empty());
  a.SetEngineAway(0, "");
  a.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady);
}

// ---- held requests ----

struct FleetArrivalsTest : ::testing::Test {
  FleetSim sim;
  int calls = 0;

  bool Hold(std::string_view model = "demo") {
    const auto go = [this](const std::vector<WorkerAnswer>& /*answers*/) { ++calls; };
    return sim.core.Send(ModelAwaited{std::string(model)}, {}, sim.clock.Now(), go).ok();
  }
  bool IsArriving(std::string_view model = "demo") { return sim.core.Snapshot(sim.clock.Now()).IsArriving(model); }
};

TEST_F(FleetArrivalsTest, ARouterThatHasJustBegunHoldsRequestsUntilTheirModelIsServed) {
  sim.Tick();
  EXPECT_TRUE(IsArriving());
  ASSERT_TRUE(Hold());
  sim.CarryOutEffects();
  EXPECT_EQ(calls, 0);
  sim.JoinWorker("a");
  sim.CarryOutEffects();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(IsArriving()) << "it is served";
}

TEST_F(FleetArrivalsTest, OtherModelsAreAwaitedToo) {
  sim.JoinWorker("a");
  EXPECT_TRUE(IsArriving("other"));
  sim.Advance(Arrivals::kSettling + 100ms);
  EXPECT_FALSE(IsArriving("other"));
}

TEST_F(FleetArrivalsTest, NobodyIsHeldForMoreThanASecond) {
  sim.Tick();
  ASSERT_TRUE(Hold());
  sim.Advance(900ms);
  sim.CarryOutEffects();
  EXPECT_EQ(calls, 0);
  sim.Advance(200ms);
  sim.CarryOutEffects();
  EXPECT_EQ(calls, 1);
}

TEST_F(FleetArrivalsTest, OneThatHasRunForLongHoldsNobody) {
  sim.Advance(Arrivals::kSettling + 100ms);
  EXPECT_FALSE(IsArriving());
  FakeWorker& a = sim.AddWorker("a");
  a.SayHello();
  sim.DeliverOne(a);
  EXPECT_TRUE(IsArriving()) << "its tokenizer is still to come";
}

TEST_F(FleetArrivalsTest, TheNumberOfHeldRequestsIsBounded) {
  sim.Tick();
  for (std::size_t i = 0; i < Arrivals::kMaxHeld; ++i) ASSERT_TRUE(Hold());
  EXPECT_FALSE(Hold());
}

TEST_F(FleetArrivalsTest, AShutdownLetsThemGo) {
  sim.Tick();
  ASSERT_TRUE(Hold());
  sim.core.Shutdown();
  sim.CarryOutEffects();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(Hold());
  EXPECT_FALSE(IsArriving());
}

}  // namespace
}  // namespace roost::router

// Workers that hang, fail their requests, or are full; requests that run out of time.
#include <gtest/gtest.h>

#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

struct FleetTroubleTest : TwoWorkersTest {
  FakeWorker& OtherThan(const FakeWorker& worker) { return &worker == &a ? b : a; }
};

// ---- engines that hang ----

TEST_F(FleetTroubleTest, AHungEngineIsLostAndItsStreamsGoOnExactly) {
  WarmUp();
  Request request = sim.Submit(MakePrompt(7, 30), 40);
  sim.DeliverAll();
  FakeWorker& hung = ServerOf(request);
  hung.Step();
  sim.DeliverAll();
  hung.SetHung(true);
  sim.Advance(9s);
  EXPECT_TRUE(sim.metrics.lost.empty());
  sim.Advance(2s);
  EXPECT_EQ(sim.metrics.lost["stalled"], 1);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->workers.size(), 2U);
}

TEST_F(FleetTroubleTest, AHungEngineGetsNothingBeforeItMakesProgress) {
  WarmUp();
  const Request request = sim.Submit(MakePrompt(7, 30), 40);
  sim.DeliverAll();
  FakeWorker& hung = ServerOf(request);
  hung.SetHung(true);
  sim.Advance(12s);
  ASSERT_EQ(sim.metrics.lost["stalled"], 1);
  sim.Advance(2s);  // its link says hello again
  ASSERT_TRUE(hung.welcomed());
  EXPECT_FALSE(sim.StatusOf(hung.id())->ready);
  const std::size_t had = hung.received().size();
  for (TokenId seed = 20; seed < 30; ++seed) sim.Submit(MakePrompt(seed, 30), 4);
  sim.Run();
  EXPECT_EQ(hung.received().size(), had);
  EXPECT_EQ(sim.metrics.lost["stalled"], 1);

  hung.SetHung(false);
  hung.Step();
  sim.DeliverAll();
  EXPECT_TRUE(sim.StatusOf(hung.id())->ready);
  sim.Kill(OtherThan(hung));
  sim.Advance(3s);
  const Request later = sim.Submit(MakePrompt(40, 30), 4);
  sim.Run();
  ExpectWholeAnswer(later);
}

TEST_F(FleetTroubleTest, AnIdleEngineDoesNotHang) {
  WarmUp();
  a.SetHung(true);
  sim.Advance(60s);
  EXPECT_TRUE(sim.metrics.lost.empty());
}

TEST_F(FleetTroubleTest, AFirstStepMayTakeLong) {
  const Request request = sim.Submit(MakePrompt(7, 30), 40);
  sim.DeliverAll();
  ServerOf(request).SetHung(true);
  sim.Advance(60s);
  EXPECT_TRUE(sim.metrics.lost.empty());
  sim.Advance(70s);
  EXPECT_EQ(sim.metrics.lost["stalled"], 1);
}

// ---- workers that fail their requests ----

TEST_F(FleetTroubleTest, AWorkerThatFailsFastIsLeftOutAndTriedAgain) {
  a.SetBroken(true);
  int failed = 0;
  for (TokenId seed = 1; seed <= 40; ++seed) {
    const Request request = sim.Submit(MakePrompt(seed, 30), 4);
    sim.Run();
    if (request.observer->end->error.has_value()) ++failed;
  }
  // Each request takes a round of at least 50 ms, so the 40 requests last longer than the first ejection.
  EXPECT_LE(failed, 6);
  a.SetBroken(false);
  const std::size_t had = a.received().size();
  sim.Advance(61s);
  for (TokenId seed = 50; seed < 60; ++seed) {
    sim.Submit(MakePrompt(seed, 30), 4);
    sim.Run();
  }
  EXPECT_GT(a.received().size(), had + 2);
}

// Such as a grammar that was not compiled in time: the client may try again, and the worker has not left.
TEST_F(FleetTroubleTest, AnErrorThatNamesAFieldIsTheRequests) {
  const Request request = sim.Submit(MakePrompt(1, 30), 4);
  sim.DeliverAll();
  FakeWorker& server = ServerOf(request);
  server.GiveUp(*request.id, {ErrorCode::kUnavailable, "was not compiled in time; try again", "response_format"});
  sim.DeliverOne(server);
  sim.CarryOutEffects();
  ExpectError(request, ErrorCode::kUnavailable);
  EXPECT_TRUE(sim.metrics.retries.empty());
  EXPECT_EQ(sim.StatusOf(server.id())->state, WorkerState::kReady);
}

TEST_F(FleetTroubleTest, TheOnlyWorkerIsNotLeftOut) {
  sim.Kill(b);
  sim.Advance(3s);
  a.SetBroken(true);
  for (TokenId seed = 1; seed <= 5; ++seed) {
    const Request request = sim.Submit(MakePrompt(seed, 30), 4);
    sim.Run();
    ExpectError(request, ErrorCode::kInternal);
  }
}

TEST_F(FleetTroubleTest, AWorkerThatWasLeftOutServesWhenTheOthersGo) {
  a.SetBroken(true);
  for (TokenId seed = 1; seed <= 10; ++seed) {
    sim.Submit(MakePrompt(seed, 30), 4);
    sim.Run();
  }
  a.SetBroken(false);
  sim.core.OnUnreachable(b.identity(), sim.clock.Now());
  sim.Kill(b);
  sim.Tick();
  const Request request = sim.Submit(MakePrompt(50, 30), 4);
  sim.Run();
  ExpectWholeAnswer(request);
}

// ---- full for a short time ----

TEST_F(FleetTroubleTest, MomentaryFullnessMakesARequestWaitAndNotFail) {
  a.SetFull(true);
  b.SetFull(true);
  const Request request = sim.Submit(MakePrompt(1, 30), 8);
  sim.Run(20);
  EXPECT_FALSE(request.observer->end.has_value());
  b.SetFull(false);
  sim.Run();
  ExpectWholeAnswer(request);
  EXPECT_EQ(request.observer->workers.back(), "b");
}

TEST_F(FleetTroubleTest, AWorkerThatWasFullTakesTheSameRequestLater) {
  sim.Kill(b);
  sim.Advance(3s);
  a.SetFull(true);
  const Request request = sim.Submit(MakePrompt(1, 30), 8);
  sim.Run(3);
  EXPECT_FALSE(request.observer->end.has_value());
  a.SetFull(false);
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetTroubleTest, AStreamThatGoesOnWaitsForAWorkerThatIsFullForAMoment) {
  const Request request = sim.Submit(MakePrompt(7, 30), 40);
  sim.DeliverAll();
  FakeWorker& server = ServerOf(request);
  server.Step();
  sim.DeliverAll();
  ASSERT_FALSE(request.observer->tokens.empty());
  OtherThan(server).SetFull(true);
  sim.Kill(server);
  sim.Advance(3s);
  EXPECT_FALSE(request.observer->end.has_value());
  OtherThan(server).SetFull(false);
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetTroubleTest, WhoWaitsForFullWorkersTooLongIsToldToComeBack) {
  a.SetFull(true);
  b.SetFull(true);
  const Request request = sim.Submit(MakePrompt(1, 30), 8);
  sim.Run(590);
  EXPECT_FALSE(request.observer->end.has_value());
  sim.Run(30);
  ExpectError(request, ErrorCode::kOverloaded);
  for (const WorkerStatus& status : sim.core.Workers(sim.clock.Now())) EXPECT_EQ(status.in_flight_requests, 0U);
  EXPECT_EQ(sim.metrics.queue_refusals["deadline"], 1);
}

// ---- deadlines ----

TEST_F(FleetTroubleTest, ARequestEndsAtItsDeadlineAndItsWorkerIsTold) {
  GenerateSpec wishes;
  wishes.deadline = sim.clock.Now() + 5s;
  const Request request = sim.Submit(MakePrompt(1, 30), 40, std::move(wishes));
  sim.DeliverAll();
  FakeWorker& server = ServerOf(request);
  ASSERT_EQ(server.received().size(), 1U);
  EXPECT_EQ(server.received().front().deadline_ms, 5000U);
  sim.Advance(4900ms);
  EXPECT_FALSE(request.observer->end.has_value());
  sim.Advance(200ms);
  ExpectError(request, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(server.cancelled().size(), 1U);
  EXPECT_EQ(sim.core.request_count(), 0U);
}

TEST_F(FleetTroubleTest, ADeadlineHoldsWhileTheRequestWaitsAndWhenItGoesOn) {
  a.SetFull(true);
  b.SetFull(true);
  GenerateSpec wishes;
  wishes.deadline = sim.clock.Now() + 3s;
  const Request request = sim.Submit(MakePrompt(1, 30), 40, std::move(wishes));
  sim.Run(40);
  a.SetFull(false);
  sim.Run(2);
  ASSERT_FALSE(a.received().empty());
  EXPECT_LE(a.received().back().deadline_ms, 1000U);
  sim.Advance(1s);
  ExpectError(request, ErrorCode::kDeadlineExceeded);
}

TEST_F(FleetTroubleTest, ARequestWithoutTimeIsRefused) {
  GenerateSpec wishes;
  wishes.deadline = sim.clock.Now();
  EXPECT_EQ(sim.Submit(MakePrompt(1, 30), 40, std::move(wishes)).refusal->code, ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace roost::router

// Workers whose steps take long: they are late, and not lost. Workers that hang are found all the same.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/router/fleet/fleet_answers.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

struct FleetSlowTest : TwoWorkersTest {
  void SetSlowness(double slowness) {
    for (auto& [id, worker] : sim.workers) worker->SetSlowness(slowness);
  }
  // Each worker computes a step for so long. A part of it is done each second.
  void Compute(Duration step) {
    for (Duration passed{}; passed < step; passed += 1s) {
      sim.Advance(1s);
      for (auto& [id, worker] : sim.workers) worker->ComputePart(ToSeconds(passed + 1s));
    }
    for (auto& [id, worker] : sim.workers) worker->Step();
    sim.DeliverAll();
  }
  // The same, until all requests have ended.
  void ComputeAll(Duration step) {
    for (int i = 0; i < 100 && sim.core.request_count() > 0; ++i) Compute(step);
  }
};

TEST_F(FleetSlowTest, AFleetThatGetsTenTimesSlowerFailsAndMovesNothing) {
  SetSlowness(10);
  WarmUp();
  std::vector<Request> requests;
  for (TokenId seed = 1; seed <= 2; ++seed) requests.push_back(sim.Submit(MakePrompt(seed, 2'000), 8));
  sim.DeliverAll();
  ASSERT_EQ(a.running_count(), 1U);
  ASSERT_EQ(b.running_count(), 1U);
  SetSlowness(100);
  ComputeAll(20s);
  for (const Request& request : requests) ExpectWholeAnswer(request);
  EXPECT_TRUE(sim.metrics.retries.empty());
  EXPECT_TRUE(sim.metrics.lost.empty());
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady);
  EXPECT_EQ(sim.StatusOf("b")->state, WorkerState::kReady);
}

TEST_F(FleetSlowTest, AStepThatGetsOnIsNoHangHoweverLongItTakes) {
  WarmUp();
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  Compute(1s);
  ASSERT_FALSE(request.observer->tokens.empty());
  Compute(25s);
  EXPECT_TRUE(sim.metrics.retries.empty());
  Compute(600s);
  EXPECT_TRUE(sim.metrics.lost.empty());
  EXPECT_EQ(sim.metrics.retries["no_later_token"], 1) << "a peer can tell of parts without end";
  EXPECT_FALSE(request.observer->end.has_value());
  ComputeAll(1s);
  ExpectWholeAnswer(request);
}

TEST_F(FleetSlowTest, AStepThatGetsNoFurtherIsAHang) {
  WarmUp();
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  Compute(1s);
  FakeWorker& server = ServerOf(request);
  server.ComputePart(1.5);
  sim.Advance(9s);
  EXPECT_TRUE(sim.metrics.lost.empty());
  sim.Advance(2s);
  EXPECT_EQ(sim.metrics.lost["stalled"], 1);
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetSlowTest, AHangIsFoundAfterFourOfTheStepsThatItsWorkerMadeLast) {
  WarmUp();
  const Request request = sim.Submit(TalkativePrompt(), kOutput);
  sim.DeliverAll();
  Compute(1s);
  SetSlowness(20'000);  // a decode takes 20 s
  Compute(20s);
  FakeWorker& other = Other(ServerOf(request), a, b);
  const auto advance = [&](int seconds) {
    for (int second = 0; second < seconds; ++second) {
      other.Step();
      sim.Advance(1s);
    }
  };
  advance(75);
  EXPECT_TRUE(sim.metrics.lost.empty()) << "its steps take 20 s now";
  ExpectWholeAnswer(request);  // it went on elsewhere
  advance(10);
  EXPECT_EQ(sim.metrics.lost["stalled"], 1);
}

TEST_F(FleetSlowTest, PartsOfAStepGiveAFirstTokenBoundedTime) {
  WarmUp();
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  sim.DeliverAll();
  const auto compute = [&](int from, int to) {
    for (int second = from; second < to; ++second) {
      sim.Advance(1s);
      ServerOf(request).ComputePart(second + 1);
    }
  };
  compute(0, 29);
  EXPECT_TRUE(sim.metrics.retries.empty());
  compute(29, 33);
  EXPECT_EQ(sim.metrics.retries["no_first_token"], 1) << "a peer can tell of parts without end";
}

TEST_F(FleetSlowTest, LateFirstTokensLeaveTheRetriesForFailures) {
  FakeWorker& c = sim.JoinWorker("c");
  FakeWorker& d = sim.JoinWorker("d");
  WarmUp();
  const std::vector<FakeWorker*> all = {&a, &b, &c, &d};
  for (FakeWorker* worker : all) worker->SetSilent(true);
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  for (int i = 0; i < 600; ++i) {
    for (FakeWorker* worker : all) worker->Step();
    sim.Advance(100ms);
  }
  ASSERT_EQ(sim.metrics.retries["no_first_token"], 2);
  sim.Kill(ServerOf(request));
  sim.Advance(3s);
  EXPECT_FALSE(request.observer->end.has_value()) << "it goes on elsewhere";
  for (FakeWorker* worker : all) worker->SetSilent(false);
  sim.Run();
  ExpectWholeAnswer(request);
}

// A machine under a load that grows: its links' threads wait longer and longer for a processor.
struct FleetLateReportsTest : FleetSlowTest {
  void ReportsAfter(Duration gap) {
    for (Duration passed{}; passed < gap; passed += 100ms) {
      sim.clock.Advance(100ms);
      sim.Tick();
    }
    for (auto& [id, worker] : sim.workers) worker->Step();
    sim.DeliverAll();
  }
};

TEST_F(FleetLateReportsTest, WorkersWhoseReportsComeLaterAndLaterAreNotLost) {
  WarmUp();
  const Request request = sim.Submit(MakePrompt(7, 30), 8);
  sim.DeliverAll();
  for (const Duration gap : {300ms, 1000ms, 1500ms, 3000ms, 6000ms, 9000ms}) ReportsAfter(gap);
  EXPECT_TRUE(sim.metrics.lost.empty());
  EXPECT_TRUE(sim.metrics.retries.empty());
  sim.Run();
  ExpectWholeAnswer(request);
}

TEST_F(FleetLateReportsTest, AWorkerThatDiesThereIsLostAfterFiveTimeouts) {
  for (const Duration gap : {1500ms, 3000ms}) ReportsAfter(gap);
  sim.Kill(a);
  sim.Advance(9900ms);
  EXPECT_TRUE(sim.metrics.lost.empty());
  sim.Advance(300ms);
  EXPECT_EQ(sim.metrics.lost["silent"], 1);
}

}  // namespace
}  // namespace roost::router

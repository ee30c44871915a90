// Requests that wait at the router because no worker has space.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

constexpr std::uint32_t kShortOutput = 3;

FleetCoreOptions SmallQueue(std::uint32_t bound = 2) {
  FleetCoreOptions options;
  options.requests.worker_queue_bound = bound;
  options.requests.max_queue = 10;
  options.requests.max_queue_wait = 5s;
  return options;
}

struct FleetQueueTest : ::testing::Test {
  FleetQueueTest() : FleetQueueTest(SmallQueue()) {}
  explicit FleetQueueTest(const FleetCoreOptions& options) : sim(1, "cache-aware", options) {}

  FleetSim sim;
  FakeWorker& a = sim.JoinWorker("a");

  Request Submit(const std::string& tenant = "", std::uint32_t priority = 50) {
    GenerateSpec wishes;
    wishes.generate.tenant = tenant;
    wishes.generate.priority = priority;
    Request request = sim.Submit(MakePrompt(next_seed_++, 40), kShortOutput, std::move(wishes));
    sim.CarryOutEffects();
    return request;
  }
  // Sends the worker as many requests as may wait there.
  void FillWorkers() {
    while (sim.core.waiting_count() == 0) requests_.push_back(Submit());
    sim.core.Cancel(*requests_.back().id);
    requests_.pop_back();
  }
  static bool IsAtWorker(const Request& request) { return !request.observer->workers.empty(); }
  // The worker reports that it has begun all requests that it was sent.
  void MakeRoom() {
    sim.clock.Advance(50ms);
    a.Step();
    sim.DeliverAll();
  }

 private:
  TokenId next_seed_ = 1;
  std::vector<Request> requests_;
};

TEST_F(FleetQueueTest, RequestWaitsUntilAWorkerReportsRoom) {
  const Request first = Submit();
  const Request second = Submit();
  const Request third = Submit();
  EXPECT_TRUE(IsAtWorker(first) && IsAtWorker(second));
  EXPECT_FALSE(IsAtWorker(third));
  EXPECT_EQ(sim.core.waiting_count(), 1U);
  sim.clock.Advance(2s);
  const auto queues = sim.core.Queues(sim.clock.Now());
  ASSERT_EQ(queues.size(), 1U);
  EXPECT_EQ(queues.front().model, "demo");
  EXPECT_EQ(queues.front().waiting_requests, 1U);
  EXPECT_EQ(queues.front().oldest_wait_seconds, 2);
  MakeRoom();
  EXPECT_TRUE(IsAtWorker(third));
  EXPECT_TRUE(sim.core.Queues(sim.clock.Now()).empty());
  sim.Run();
  EXPECT_EQ(third.observer->tokens, ExpectedOutput(third.prompt, kShortOutput));
}

TEST_F(FleetQueueTest, AViewTellsWhichQueuesAreFull) {
  const auto model = sim.core.models()->Main("demo");
  const auto room = [&] { return sim.core.Snapshot(sim.clock.Now()).CheckRoom(*model); };
  FillWorkers();
  std::vector<Request> waiting;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(room().ok()) << i;
    waiting.push_back(Submit(std::to_string(i)));
  }
  const int refused = sim.metrics.queue_refusals["full"];
  ASSERT_FALSE(room().ok());
  EXPECT_EQ(room().error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(sim.metrics.queue_refusals["full"], refused + 2);
  EXPECT_EQ(Submit().refusal->message, room().error().message);
  sim.core.Cancel(*waiting.front().id);
  EXPECT_TRUE(room().ok());
  sim.core.Shutdown();
  EXPECT_EQ(room().error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetQueueTest, NobodyWaitsWhileOneWorkerHasRoomAndFullOnesGetNothing) {
  FakeWorker& b = sim.JoinWorker("b");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(IsAtWorker(Submit()));
  EXPECT_EQ(a.received().size(), 2U);
  EXPECT_EQ(b.received().size(), 2U);
  EXPECT_FALSE(IsAtWorker(Submit()));
}

TEST_F(FleetQueueTest, WaitingRequestsThatAWorkerReportsFillItToo) {
  a.SetWaiting(2);
  sim.Advance(100ms);
  EXPECT_FALSE(IsAtWorker(Submit()));
}

TEST_F(FleetQueueTest, WorkerThatJoinsTakesThoseThatWait) {
  FillWorkers();
  const Request waiting = Submit();
  sim.JoinWorker("b");
  sim.Tick();
  sim.DeliverAll();
  EXPECT_EQ(waiting.observer->workers, (std::vector<std::string>{"b"}));
}

TEST_F(FleetQueueTest, WhoComesLaterDoesNotOvertake) {
  FillWorkers();
  const Request earlier = Submit();
  sim.JoinWorker("b");  // has space, but the router has not looked for it yet
  const Request later = Submit();
  EXPECT_FALSE(IsAtWorker(later));
  sim.Tick();
  sim.DeliverAll();
  EXPECT_TRUE(IsAtWorker(earlier) && IsAtWorker(later));
}

TEST_F(FleetQueueTest, PriorityFirstThenTenantsInTurn) {
  FillWorkers();
  std::vector<Request> flood(4);  // a tenant takes half of the queue at most
  for (Request& request : flood) request = Submit("flood");
  const Request quiet = Submit("quiet");
  const Request urgent = Submit("flood", 90);
  MakeRoom();  // for two
  EXPECT_TRUE(IsAtWorker(urgent));
  EXPECT_EQ(std::count_if(flood.begin(), flood.end(), IsAtWorker), 1);
  sim.Run();
  EXPECT_TRUE(IsAtWorker(quiet));
}

TEST_F(FleetQueueTest, OverTheBoundTheAnswerIsAtOnceToComeBack) {
  FillWorkers();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Submit().id.has_value());
  const Request refused = Submit();
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_EQ(refused.refusal->code, ErrorCode::kOverloaded);
  EXPECT_EQ(sim.metrics.queue_refusals["full"], 1);
  sim.Run();
  EXPECT_FALSE(refused.observer->end.has_value());
}

TEST_F(FleetQueueTest, TellsHowLongTheQueueTakesToDrain) {
  const auto drain_seconds = [this] { return sim.core.Queues(sim.clock.Now()).at(0).drain_seconds; };
  FillWorkers();
  for (int i = 0; i < 10; ++i) Submit();
  EXPECT_EQ(drain_seconds(), 0);  // nothing is known yet
  sim.clock.Advance(450ms);
  EXPECT_DOUBLE_EQ(drain_seconds(), 4.5);  // as if the first one left now
  MakeRoom();                              // for two
  EXPECT_EQ(sim.core.waiting_count(), 8U);
  EXPECT_NEAR(drain_seconds(), 8 * 0.5 / 3, 1e-6);
  sim.clock.Advance(4s);
  EXPECT_EQ(drain_seconds(), 5);  // by then all have left or given up
}

TEST_F(FleetQueueTest, DeadlineEndsTheWait) {
  FillWorkers();
  const Request request = Submit();
  sim.Advance(4900ms);
  EXPECT_FALSE(request.observer->end.has_value());
  sim.Advance(300ms);
  ASSERT_TRUE(request.observer->end.has_value());
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kOverloaded);
  EXPECT_EQ(sim.metrics.queue_refusals["deadline"], 1);
  EXPECT_EQ(sim.core.waiting_count(), 0U);
}

TEST_F(FleetQueueTest, DeadlineWithoutAnyWorkerSaysSo) {
  FillWorkers();
  const Request request = Submit();
  sim.Kill(a);
  sim.Advance(6s);
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kUnavailable);
}

TEST_F(FleetQueueTest, WorkerThatRestartsTakesThoseThatWaitedForIt) {
  FillWorkers();
  const Request request = Submit();
  sim.Kill(a);
  sim.Advance(3s);
  sim.Revive(a);
  sim.DeliverAll();
  sim.Run();
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(request.prompt, kShortOutput));
}

TEST_F(FleetQueueTest, CancelledRequestLeavesTheQueue) {
  FillWorkers();
  const Request request = Submit();
  sim.core.Cancel(*request.id);
  sim.CarryOutEffects();
  EXPECT_EQ(request.observer->end->reason, wire::FinishReason::kCancelled);
  EXPECT_EQ(sim.core.waiting_count(), 0U);
  sim.Run();
  EXPECT_FALSE(IsAtWorker(request));
}

TEST_F(FleetQueueTest, ShutdownEndsThoseThatWait) {
  FillWorkers();
  const Request request = Submit();
  sim.core.Shutdown();
  sim.CarryOutEffects();
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(sim.core.waiting_count(), 0U);
}

TEST_F(FleetQueueTest, RequestThatGoesOnAfterAFailureDoesNotWait) {
  FakeWorker& b = sim.JoinWorker("b");
  for (int i = 0; i < 4; ++i) Submit();
  sim.core.OnUnreachable(a.id(), sim.clock.Now());
  sim.CarryOutEffects();
  EXPECT_EQ(b.received().size(), 4U);
  EXPECT_EQ(sim.core.waiting_count(), 0U);
}

// A worker's queue has a reserve, here for two, for tenants within their shares.
struct ReserveTest : FleetQueueTest {
  ReserveTest() : FleetQueueTest(SmallQueue(8)) {}

  std::vector<Request> SubmitMany(const std::string& tenant, int count) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(Submit(tenant));
    return requests;
  }
  static std::ptrdiff_t AtWorkers(const std::vector<Request>& requests) {
    return std::count_if(requests.begin(), requests.end(), IsAtWorker);
  }
};

TEST_F(ReserveTest, ATenantWithinItsShareDoesNotWaitBehindAFlood) {
  const std::vector<Request> flood = SubmitMany("flood", 12);
  ASSERT_EQ(AtWorkers(flood), 8);
  EXPECT_TRUE(IsAtWorker(Submit("modest")));
  EXPECT_FALSE(IsAtWorker(Submit("flood")));
}

TEST_F(ReserveTest, ItIsBounded) {
  SubmitMany("flood", 12);
  const std::vector<Request> modest = SubmitMany("modest", 3);
  EXPECT_EQ(AtWorkers(modest), 2);
  EXPECT_EQ(a.received().size(), 10U);
}

TEST_F(ReserveTest, ATenantsOwnRequestsGoInOrder) {
  SubmitMany("flood", 12);
  const std::vector<Request> modest = SubmitMany("modest", 3);
  sim.core.Cancel(*modest[0].id);
  sim.CarryOutEffects();
  sim.Advance(200ms);  // the worker tells that it has one less
  ASSERT_FALSE(IsAtWorker(modest[2]));
  EXPECT_FALSE(IsAtWorker(Submit("modest")));
}

TEST_F(ReserveTest, ASingleTenantHasNone) {
  EXPECT_EQ(AtWorkers(SubmitMany("one", 12)), 8);
  EXPECT_EQ(a.received().size(), 8U);
}

}  // namespace
}  // namespace roost::router

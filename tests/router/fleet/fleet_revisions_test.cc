// Two revisions of one model at the same time, while workers are rolled to new weights.
#include <gtest/gtest.h>

#include <map>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

struct FleetRevisionsTest : ::testing::Test {
  FleetSim sim;

  FakeWorker& Join(const std::string& id, const std::string& fingerprint) {
    FakeWorker& worker = sim.AddWorker(id);
    worker.hello().fingerprint = fingerprint;
    worker.SayHello();
    sim.DeliverAll();
    return worker;
  }
  // The number of requests, out of `count`, that each worker gets.
  std::map<std::string, int> Spread(int count) {
    std::map<std::string, int> spread;
    for (int i = 0; i < count; ++i) {
      const Request request = sim.Submit(MakePrompt(static_cast<TokenId>(next_seed_++), 30), 2);
      sim.Run();
      EXPECT_FALSE(request.observer->end->error.has_value());
      ++spread[request.observer->workers.back()];
    }
    return spread;
  }

  int next_seed_ = 1;
};

TEST_F(FleetRevisionsTest, BothServeAndEachGetsTheShareOfItsWorkers) {
  Join("a", "old");
  Join("b", "old");
  FakeWorker& rolled = Join("c", "new");
  EXPECT_TRUE(rolled.welcomed());
  const auto spread = Spread(60);
  EXPECT_EQ(spread.at("c"), 20);
  EXPECT_EQ(sim.core.models()->models.size(), 1U);
  EXPECT_EQ(sim.core.models()->Main("demo")->fingerprint, "old");
}

TEST_F(FleetRevisionsTest, EachHasAnIndexOfItsOwn) {
  Join("a", "old");
  Join("b", "new");
  const auto old_model = sim.core.models()->Choose("demo");
  const auto new_model = sim.core.models()->Choose("demo");
  ASSERT_NE(old_model->fingerprint, new_model->fingerprint);
  EXPECT_NE(old_model->index, new_model->index);
}

TEST_F(FleetRevisionsTest, AWorkerThatDrainsGetsNoShare) {
  FakeWorker& leaving = Join("a", "old");
  Join("b", "new");
  leaving.SetDraining(true);
  leaving.Heartbeat();
  sim.DeliverAll();
  EXPECT_EQ(Spread(10).at("b"), 10);
}

TEST_F(FleetRevisionsTest, AStreamNeverChangesItsRevision) {
  FakeWorker& old_worker = Join("a", "old");
  const Request request = sim.Submit(MakePrompt(1, 30), 40);
  sim.DeliverAll();
  old_worker.Step();
  sim.DeliverAll();
  ASSERT_FALSE(request.observer->tokens.empty());
  FakeWorker& rolled = Join("b", "new");
  sim.Kill(old_worker);
  sim.Advance(3s);
  ASSERT_TRUE(request.observer->end.has_value());
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(request.observer->end->error->message.find("the model's weights were replaced"), 0U);
  EXPECT_TRUE(rolled.received().empty());
}

TEST_F(FleetRevisionsTest, ARequestWithoutTokensGoesOverWithItsBlocksHashedAnew) {
  FakeWorker& old_worker = Join("a", "old");
  const Request request = sim.Submit(MakePrompt(1, 30), 8);
  sim.DeliverAll();
  FakeWorker& rolled = Join("b", "new");
  sim.Kill(old_worker);
  sim.Advance(3s);
  sim.Run();
  ASSERT_EQ(rolled.received().size(), 1U);
  const wire::Generate& moved = rolled.received().front();
  const BlockHash root = ScopeRoot(*sim.core.models()->Main("demo"), "", "");
  EXPECT_EQ(moved.root, root);
  EXPECT_EQ(moved.block_hashes, HashBlocks(root, request.prompt, FakeWorker::kBlockTokens));
  EXPECT_FALSE(request.observer->end->error.has_value());
}

TEST_F(FleetRevisionsTest, WhoWaitsGoesOverInOrder) {
  FleetCoreOptions options;
  options.requests.worker_queue_bound = 1;
  FleetSim small(1, "cache-aware", options);
  FakeWorker& old_worker = small.JoinWorker("a");
  old_worker.SetWaiting(5);
  old_worker.Heartbeat();
  small.DeliverAll();
  std::vector<Request> requests;
  for (TokenId seed = 1; seed <= 4; ++seed) requests.push_back(small.Submit(MakePrompt(seed, 30), 2));
  EXPECT_EQ(small.core.waiting_count(), 4U);
  FakeWorker& rolled = small.AddWorker("b");
  rolled.hello().fingerprint = "new";
  rolled.SayHello();
  small.DeliverAll();
  small.Kill(old_worker);
  small.Advance(3s);
  small.Run();
  ASSERT_EQ(rolled.received().size(), 4U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(rolled.received()[i].prompt, requests[i].prompt);
    EXPECT_FALSE(requests[i].observer->end->error.has_value());
  }
}

TEST_F(FleetRevisionsTest, WorkersRolledOneByOneUnderLoadFailNothing) {
  for (const char* id : {"a", "b", "c"}) Join(id, "old");
  std::vector<Request> requests;
  const auto load = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      requests.push_back(sim.Submit(MakePrompt(static_cast<TokenId>(next_seed_++), 30), 20));
      ASSERT_FALSE(requests.back().refusal.has_value());
      sim.Run(1);
    }
  };
  load(20);
  for (const char* id : {"a", "b", "c"}) {
    FakeWorker& leaving = *sim.workers.at(id);
    leaving.SetDraining(true);
    load(20);
    leaving.SayBye();
    load(5);
    Join(id, "new");
    load(20);
  }
  sim.Run();
  for (const Request& request : requests) {
    ASSERT_TRUE(request.observer->end.has_value());
    EXPECT_FALSE(request.observer->end->error.has_value()) << request.observer->end->error->message;
    EXPECT_EQ(request.observer->tokens, ExpectedOutput(request.prompt, request.max_output_tokens));
  }
  EXPECT_EQ(sim.core.models()->Main("demo")->fingerprint, "new");
}

TEST_F(FleetRevisionsTest, AModelWhoseWorkersWentAwayIsExpectedForTenMinutes) {
  EXPECT_TRUE(sim.core.models()->IsExpected("demo", sim.clock.Now())) << "nobody knows yet what will be served";
  FakeWorker& worker = Join("a", "old");
  EXPECT_TRUE(sim.core.models()->IsExpected("demo", sim.clock.Now()));
  EXPECT_FALSE(sim.core.models()->IsExpected("other", sim.clock.Now()));
  worker.SayBye();
  sim.DeliverAll();
  EXPECT_EQ(sim.core.models()->Main("demo"), nullptr);
  sim.clock.Advance(9min);
  EXPECT_TRUE(sim.core.models()->IsExpected("demo", sim.clock.Now()));
  EXPECT_FALSE(sim.core.models()->IsExpected("other", sim.clock.Now()));
  sim.clock.Advance(2min);
  EXPECT_FALSE(sim.core.models()->IsExpected("demo", sim.clock.Now()));
}

}  // namespace
}  // namespace roost::router

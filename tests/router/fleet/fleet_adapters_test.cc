// LoRA adapters: names that clients ask for as they ask for models, and that only some workers serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Request = FleetSim::Request;

struct FleetAdaptersTest : ::testing::Test {
  explicit FleetAdaptersTest(FleetCoreOptions options = {}) : sim(1, "cache-aware", options) {}

  FleetSim sim;

  FakeWorker& Join(const std::string& id, std::vector<std::string> adapters, const std::string& model = "demo") {
    FakeWorker& worker = sim.AddWorker(id);
    worker.hello().model = model;
    worker.hello().adapters = std::move(adapters);
    worker.SayHello();
    sim.DeliverAll();
    return worker;
  }
  Request Ask(const std::string& name) {
    GenerateSpec wishes;
    wishes.model = sim.core.models()->Choose(name);
    return sim.Submit(MakePrompt(static_cast<TokenId>(next_seed_++), 30), 2, std::move(wishes));
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& model : sim.core.models()->models) names.push_back(model->name);
    return names;
  }

  int next_seed_ = 1;
};

TEST_F(FleetAdaptersTest, AnAdapterIsServedUnderItsName) {
  Join("a", {"poet", "clerk"});
  EXPECT_THAT(Names(), ElementsAre("demo", "clerk", "poet"));
  const auto poet = sim.core.models()->Main("poet");
  ASSERT_NE(poet, nullptr);
  EXPECT_EQ(poet->base, "demo");
  EXPECT_EQ(poet->adapter(), "poet");
  EXPECT_EQ(poet->index, sim.core.models()->Main("demo")->index);
  EXPECT_EQ(sim.core.models()->Main("demo")->adapter(), "");
  EXPECT_EQ(sim.core.models()->Main("cook"), nullptr);
}

TEST_F(FleetAdaptersTest, AModelIsServedUnderItsOtherNamesToo) {
  FakeWorker& worker = sim.AddWorker("a");
  worker.hello().model = "demo";
  worker.hello().adapters = {"poet"};
  worker.hello().aliases = {"gpt", "demo", "poet"};
  worker.SayHello();
  sim.DeliverAll();
  EXPECT_THAT(Names(), ElementsAre("demo", "gpt", "poet"));
  const auto alias = sim.core.models()->Main("gpt");
  ASSERT_NE(alias, nullptr);
  EXPECT_EQ(alias->model_name(), "demo");
  EXPECT_FALSE(alias->is_adapter());
  EXPECT_EQ(ScopeRoot(*alias, "", ""), ScopeRoot(*sim.core.models()->Main("demo"), "", "")) << "they share blocks";
  EXPECT_TRUE(sim.core.models()->Main("poet")->is_adapter());
  Request request = Ask("gpt");
  sim.Run();
  EXPECT_TRUE(request.observer->end.has_value());
  EXPECT_EQ(sim.core.Standing(sim.clock.Now()).models.size(), 1U) << "it is counted under its own name";
  worker.outbox().emplace_back(wire::Adapters{worker.hello().epoch, {"gpt"}});
  sim.DeliverAll();
  EXPECT_TRUE(sim.core.models()->Main("gpt")->is_adapter()) << "a name that an adapter has means that";
  sim.Kill(worker);
  sim.Advance(20s);
  EXPECT_EQ(sim.core.models()->Main("gpt"), nullptr);
  EXPECT_TRUE(sim.core.models()->IsExpected("gpt", sim.clock.Now())) << "it may come back";
}

TEST_F(FleetAdaptersTest, ItsBlocksAreOthersThanTheModels) {
  Join("a", {"poet", "clerk"});
  std::set<BlockHash> roots;
  for (const char* name : {"demo", "poet", "clerk"}) roots.insert(ScopeRoot(*sim.core.models()->Main(name), "", ""));
  EXPECT_EQ(roots.size(), 3U);
}

TEST_F(FleetAdaptersTest, OnlyWorkersThatServeItGetItsRequests) {
  FakeWorker& with = Join("a", {"poet"});
  FakeWorker& without = Join("b", {});
  for (int i = 0; i < 10; ++i) {
    const Request request = Ask("poet");
    sim.Run();
    ASSERT_TRUE(request.observer->end.has_value());
    EXPECT_FALSE(request.observer->end->error.has_value());
  }
  EXPECT_EQ(with.received().size(), 10U);
  for (const wire::Generate& generate : with.received()) EXPECT_EQ(generate.adapter, "poet");
  EXPECT_TRUE(without.received().empty());
  (void)Ask("demo");
  sim.Run();
  EXPECT_EQ(with.received().size() + without.received().size(), 11U);
}

TEST_F(FleetAdaptersTest, AStreamGoesOnAtAnotherWorkerWithTheAdapterOrFails) {
  FakeWorker& first = Join("a", {"poet"});
  FakeWorker& other = Join("b", {});
  GenerateSpec wishes;
  wishes.model = sim.core.models()->Choose("poet");
  const Request request = sim.Submit(MakePrompt(1, 30), 40, std::move(wishes));
  sim.DeliverAll();
  first.Step();
  sim.DeliverAll();
  FakeWorker& second = Join("c", {"poet"});
  sim.Kill(first);
  sim.Advance(3s);
  sim.Run();
  EXPECT_TRUE(other.received().empty());
  ASSERT_EQ(second.received().size(), 1U);
  EXPECT_EQ(second.received().front().adapter, "poet");
  EXPECT_FALSE(request.observer->end->error.has_value());
  sim.Kill(second);
  sim.Advance(3s);
  EXPECT_EQ(sim.core.models()->Choose("poet"), nullptr) << "no worker has it";
}

TEST_F(FleetAdaptersTest, AdaptersComeAndGoWhileTheWorkerServes) {
  FakeWorker& worker = Join("a", {});
  EXPECT_EQ(sim.core.models()->Choose("poet"), nullptr);
  worker.SetAdapters({"poet"});
  sim.DeliverAll();
  const Request request = Ask("poet");
  worker.SetAdapters({"clerk"});
  sim.DeliverAll();
  sim.Run();
  EXPECT_FALSE(request.observer->end->error.has_value()) << "a request that it has goes on";
  EXPECT_THAT(Names(), ElementsAre("demo", "clerk"));
  EXPECT_FALSE(sim.core.models()->IsExpected("poet", sim.clock.Now()));
  EXPECT_THAT(sim.StatusOf("a")->adapters, ElementsAre("clerk"));
}

TEST_F(FleetAdaptersTest, AWorkerWithoutTheAdapterAfterAllIsLeftAndTheRequestGoesOn) {
  FakeWorker& first = Join("a", {"poet"});
  first.SetLacksAdapters(true);
  EXPECT_EQ(Ask("poet").observer->end, std::nullopt);
  FakeWorker& second = Join("b", {"poet"});
  sim.Run();
  EXPECT_EQ(first.received().size(), 1U);
  EXPECT_EQ(second.received().size(), 1U);
  EXPECT_TRUE(sim.StatusOf("a")->adapters.empty());
  EXPECT_EQ(sim.StatusOf("a")->state, WorkerState::kReady) << "the model itself is served there";
  second.SetLacksAdapters(true);
  const Request request = Ask("poet");
  sim.Run();
  EXPECT_EQ(request.observer->end->error->code, ErrorCode::kModelNotFound);
  EXPECT_EQ(sim.core.models()->Choose("poet"), nullptr);
}

TEST_F(FleetAdaptersTest, AMessageOfAnEarlierEpochChangesNothing) {
  FakeWorker& worker = Join("a", {"poet"});
  worker.outbox().emplace_back(wire::Adapters{worker.hello().epoch + 1, {"clerk"}});
  sim.DeliverAll();
  EXPECT_THAT(Names(), ElementsAre("demo", "poet"));
}

TEST_F(FleetAdaptersTest, WhoseWorkersAreGoneIsExpectedForAWhile) {
  FakeWorker& worker = Join("a", {"poet"});
  Join("b", {}, "other");
  sim.Kill(worker);
  sim.Advance(3s);
  EXPECT_EQ(sim.core.models()->Choose("poet"), nullptr);
  EXPECT_TRUE(sim.core.models()->IsExpected("poet", sim.clock.Now()));
  EXPECT_FALSE(sim.core.models()->IsExpected("clerk", sim.clock.Now()));
  sim.clock.Advance(ModelDirectory::kMemoryOfModels);
  EXPECT_FALSE(sim.core.models()->IsExpected("poet", sim.clock.Now()));
}

TEST_F(FleetAdaptersTest, AnAdapterWhoseOnlyWorkerIsAwayIsExpectedThoughOthersServeTheModel) {
  FakeWorker& worker = Join("a", {"poet", "clerk"});
  Join("b", {"clerk"});
  sim.Kill(worker);
  sim.Advance(3s);
  EXPECT_EQ(sim.core.models()->Choose("poet"), nullptr);
  EXPECT_NE(sim.core.models()->Choose("clerk"), nullptr);
  EXPECT_TRUE(sim.core.models()->IsExpected("poet", sim.clock.Now())) << "the worker may be restarting";
  sim.clock.Advance(ModelDirectory::kMemoryOfModels);
  EXPECT_FALSE(sim.core.models()->IsExpected("poet", sim.clock.Now()));
}

TEST_F(FleetAdaptersTest, ANameThatAModelHasMeansTheModel) {
  Join("a", {"other", "shared"});
  Join("b", {"shared"}, "other");
  EXPECT_EQ(sim.core.models()->Main("other")->base, "");
  EXPECT_EQ(sim.core.models()->Main("shared")->base, "demo") << "the first of two models that have it";
  EXPECT_THAT(Names(), ElementsAre("demo", "shared", "other"));
}

TEST_F(FleetAdaptersTest, EachRevisionThatHasItGetsAShare) {
  FakeWorker& old_worker = Join("a", {"poet"});
  FakeWorker& rolled = sim.AddWorker("b");
  rolled.hello().fingerprint = "new";
  rolled.hello().adapters = {"poet"};
  rolled.SayHello();
  sim.DeliverAll();
  for (int i = 0; i < 10; ++i) {
    (void)Ask("poet");
    sim.Run();
  }
  EXPECT_EQ(old_worker.received().size(), 5U);
  EXPECT_EQ(rolled.received().size(), 5U);
}

TEST_F(FleetAdaptersTest, WarmingAndQuestionsGoToWorkersThatServeIt) {
  FakeWorker& with = Join("a", {"poet"});
  FakeWorker& without = Join("b", {});
  const auto model = sim.core.models()->Choose("poet");
  const std::vector<TokenId> prompt = MakePrompt(9, 40);
  const std::vector<BlockHash> hashes = HashBlocks(ScopeRoot(*model, "", ""), prompt, FakeWorker::kBlockTokens);
  const auto match =
      sim.core.Match({.model = model, .prompt_token_count = 40, .block_hashes = hashes}, {}, sim.clock.Now());
  ASSERT_TRUE(match.ok());
  EXPECT_EQ(match->holders.size(), 1U);
  EXPECT_EQ(match->choice->worker_id, "a");
  WarmOrder order;
  order.spec.model = model;
  order.spec.generate.prompt = prompt;
  order.spec.generate.root = ScopeRoot(*model, "", "");
  order.spec.generate.block_hashes = hashes;
  order.workers.target = PinTarget::kAllWorkers;
  order.deadline = sim.clock.Now() + 10s;
  ASSERT_TRUE(sim.core.Send(order, {}, sim.clock.Now(), [](const std::vector<WorkerAnswer>&) {}).ok());
  sim.Run();
  EXPECT_TRUE(without.received().empty());
  ASSERT_FALSE(with.received().empty());
  EXPECT_EQ(with.received().front().adapter, "poet");
  EXPECT_EQ(with.Held(hashes), hashes.size());
}

struct FleetAdapterQueueTest : FleetAdaptersTest {
  FleetAdapterQueueTest() : FleetAdaptersTest(SmallQueue()) {}

  static FleetCoreOptions SmallQueue() {
    FleetCoreOptions options;
    options.requests.worker_queue_bound = 2;
    options.requests.max_queue = 3;
    options.requests.max_queue_wait = 5s;
    return options;
  }
  static bool IsAtWorker(const Request& request) { return !request.observer->workers.empty(); }
  Request AskNow(const std::string& name) {
    Request request = Ask(name);
    sim.CarryOutEffects();
    return request;
  }
};

TEST_F(FleetAdapterQueueTest, WhoWaitsForAnAdapterDelaysNobodyElse) {
  FakeWorker& with = Join("a", {"poet"});
  FakeWorker& without = Join("b", {});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(IsAtWorker(AskNow("poet")));
  const Request waits = AskNow("poet");
  EXPECT_FALSE(IsAtWorker(waits));
  EXPECT_TRUE(IsAtWorker(AskNow("demo"))) << "the other worker has room";
  EXPECT_EQ(without.received().size(), 1U);
  without.Heartbeat();
  sim.DeliverAll();
  sim.Tick();
  sim.CarryOutEffects();
  EXPECT_FALSE(IsAtWorker(waits)) << "the only worker that has the adapter has no room";
  sim.Run();
  EXPECT_TRUE(IsAtWorker(waits));
  EXPECT_EQ(with.received().size(), 3U);
}

TEST_F(FleetAdapterQueueTest, ModelsAndAdaptersThatWaitForOneWorkerTakeTurns) {
  FakeWorker& worker = Join("a", {"poet"});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(IsAtWorker(AskNow("demo")));
  std::vector<Request> demos;
  for (int i = 0; i < 3; ++i) demos.push_back(AskNow("demo"));
  const Request poet = AskNow("poet");
  EXPECT_FALSE(IsAtWorker(poet));
  sim.clock.Advance(50ms);
  worker.Step();
  sim.DeliverAll();
  EXPECT_TRUE(IsAtWorker(poet));
  EXPECT_TRUE(IsAtWorker(demos[0]));
  EXPECT_FALSE(IsAtWorker(demos[1]));
}

}  // namespace
}  // namespace roost::router

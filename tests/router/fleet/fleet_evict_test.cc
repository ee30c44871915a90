// Evictions on their way to the workers, what came of them, and what a router forgets itself.
#include <gtest/gtest.h>

#include "router/fleet/evicted.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Request = FleetSim::Request;

class FleetEvictTest : public ::testing::Test {
 protected:
  EvictOrder OrderOf(const std::vector<TokenId>& prompt) {
    const std::shared_ptr<const ServedModel> model = sim_.core.models()->Main("demo");
    return {.what = std::vector{PromptOfRevision{model, {RootHash({}), prompt, BlocksOf(prompt)}}}, .model = "demo"};
  }
  static EvictOrder OrderOf(const std::string& tenant) { return {.what = wire::TenantToEvict{tenant}}; }

  Result<void> Evict(const EvictOrder& order) {
    Result<void> sent = sim_.core.Send(order, {}, sim_.clock.Now(), [this](std::vector<WorkerAnswer> answers) {
      ++done_count_;
      answers_ = std::move(answers);
    });
    sim_.DeliverAll();
    return sent;
  }
  std::vector<std::string> Answering() const {
    std::vector<std::string> names;
    for (const WorkerAnswer& answer : answers_) names.push_back(answer.worker_id);
    return names;
  }
  std::uint32_t EvictedAt(std::size_t index) const {
    return std::get<wire::EvictAnswer>(answers_[index].reply).evicted_block_count;
  }
  static GenerateSpec Of(const std::string& tenant) {
    GenerateSpec spec;
    spec.generate.tenant = tenant;
    return spec;
  }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
  std::vector<WorkerAnswer> answers_;
  int done_count_ = 0;
};

TEST_F(FleetEvictTest, ReachesEveryWorkerOnceAndTheIndexFollows) {
  const auto prompt = MakePrompt(1, 40);
  sim_.Submit(prompt, 4);
  sim_.Run();
  ASSERT_FALSE(sim_.Match(BlocksOf(prompt)).empty());
  ASSERT_TRUE(Evict(OrderOf(prompt)).ok());
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b"}));
  EXPECT_GE(EvictedAt(0) + EvictedAt(1), 1U);
  for (const FakeWorker* worker : {&a_, &b_}) {
    ASSERT_EQ(worker->evictions().size(), 1U);
    EXPECT_NE(worker->evictions()[0].answer_id, 0U);
    EXPECT_EQ(std::get<wire::PromptToEvict>(worker->evictions()[0].what).tokens, prompt);
    EXPECT_TRUE(sim_.ViewIsExact(*worker));
  }
  for (const WorkerMatch& match : sim_.Match(BlocksOf(prompt))) EXPECT_LT(match.block_count, 10U);
}

TEST_F(FleetEvictTest, OfATenantReachesTheWorkersOfAllModels) {
  FakeWorker& other = sim_.AddWorker("other");
  other.hello().model = "another";
  other.SayHello();
  sim_.DeliverAll();
  const auto prompt = MakePrompt(1, 40);
  sim_.Submit(prompt, 4, Of("hens"));
  sim_.Submit(MakePrompt(2, 40), 4, Of("ducks"));
  sim_.Run();
  ASSERT_TRUE(Evict(OrderOf("hens")).ok());
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b", "other"}));
  EXPECT_EQ(std::get<wire::TenantToEvict>(other.evictions().at(0).what).tenant, "hens");
  EXPECT_TRUE(sim_.Match(BlocksOf(prompt)).empty());
  EXPECT_FALSE(sim_.Match(BlocksOf(MakePrompt(2, 40))).empty());

  EvictOrder order = OrderOf("hens");
  order.model = "demo";
  ASSERT_TRUE(Evict(order).ok());
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(FleetEvictTest, OfABlockReachesTheWorkersThatKnowSuchOrders) {
  FakeWorker& old = sim_.AddWorker("old");
  old.hello().features.erase(wire::Feature::kEvictsBlocks);
  old.SayHello();
  sim_.DeliverAll();
  const auto prompt = MakePrompt(1, 40);
  sim_.Submit(prompt, 4);
  sim_.Run();
  const BlockHash block = BlocksOf(prompt)[5];
  ASSERT_TRUE(Evict({.what = wire::BlockToEvict{block}}).ok());
  ASSERT_EQ(done_count_, 1);
  EXPECT_EQ(Answering(), (std::vector<std::string>{"a", "b", "old"}));
  EXPECT_EQ(std::get<wire::BlockToEvict>(a_.evictions().at(0).what).hash, block);
  EXPECT_TRUE(std::holds_alternative<NotSupported>(answers_[2].reply));
  EXPECT_TRUE(old.evictions().empty());
}

// A request on its way that has the block leaves nothing in a cache; one without it is not meant.
TEST(EvictedTest, ABlockNamesTheChainsThatHaveIt) {
  GenerateSpec spec;
  ServedModel model;
  model.name = "demo";
  spec.model = std::make_shared<const ServedModel>(std::move(model));
  spec.generate.block_hashes = {{1, 1}, {2, 2}};
  const EvictOrder order{.what = wire::BlockToEvict{{1, 1}}};
  EXPECT_TRUE(IsNamed(order, spec));
  EXPECT_TRUE(MayBeNamed(order, spec.generate.block_hashes));
  EXPECT_FALSE(IsNamed({.what = wire::BlockToEvict{{1, 2}}}, spec));
  EXPECT_FALSE(MayBeNamed({.what = wire::BlockToEvict{{1, 2}}}, spec.generate.block_hashes));
  EXPECT_FALSE(IsNamed({.what = wire::BlockToEvict{{1, 1}}, .model = "another"}, spec));
}

TEST_F(FleetEvictTest, ReachesWorkersThatTakeNoRequestsToo) {
  b_.SetDraining(true);
  b_.Heartbeat();
  sim_.DeliverAll();
  ASSERT_TRUE(Evict(OrderOf(MakePrompt(1, 40))).ok());
  EXPECT_EQ(b_.evictions().size(), 1U);
}

TEST_F(FleetEvictTest, AWorkerThatDoesNotKnowOfItIsNotAskedAndSaidToBeSo) {
  FakeWorker& old = sim_.AddWorker("old");
  old.hello().features.erase(wire::Feature::kEvicts);
  old.SayHello();
  sim_.DeliverAll();
  ASSERT_TRUE(Evict(OrderOf(MakePrompt(1, 40))).ok());
  ASSERT_EQ(done_count_, 1);
  EXPECT_TRUE(std::holds_alternative<NotSupported>(answers_[2].reply));
  EXPECT_TRUE(old.evictions().empty());
}

TEST_F(FleetEvictTest, AWorkerThatTakesTooLongHasNoAnswer) {
  b_.SetMute(true);
  ASSERT_TRUE(Evict(OrderOf(MakePrompt(1, 40))).ok());
  sim_.Advance(Orders::kEvictPatience - 200ms);
  EXPECT_EQ(done_count_, 0);
  sim_.Advance(400ms);
  ASSERT_EQ(done_count_, 1);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answers_[1].reply));
}

TEST_F(FleetEvictTest, OfNamedWorkersGoesToThese) {
  EvictOrder order = OrderOf(MakePrompt(1, 40));
  order.workers = {PinTarget::kNamedWorkers, {"b"}};
  ASSERT_TRUE(Evict(order).ok());
  EXPECT_EQ(Answering(), std::vector<std::string>{"b"});
  EXPECT_TRUE(a_.evictions().empty());
  order.workers.names = {"b", "c"};
  EXPECT_EQ(Evict(order).error().field, "workers");
  order.model = "unknown";
  EXPECT_EQ(Evict(order).error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetEvictTest, NobodyFollowsAPromptThatIsEvictedWhileItIsComputed) {
  const auto prompt = MakePrompt(1, 200);
  sim_.Submit(prompt, 4, Of("hens"));
  sim_.Submit(MakePrompt(2, 200), 4, Of("ducks"));
  sim_.CarryOutEffects();
  EXPECT_EQ(sim_.core.pending_count(), 2U);
  ASSERT_TRUE(sim_.core.Send(OrderOf("hens"), {}, sim_.clock.Now(), [](const auto&) {}).ok());
  EXPECT_EQ(sim_.core.pending_count(), 1U);
  ASSERT_TRUE(sim_.core.Send(OrderOf(MakePrompt(2, 200)), {}, sim_.clock.Now(), [](const auto&) {}).ok());
  EXPECT_EQ(sim_.core.pending_count(), 0U);
}

TEST_F(FleetEvictTest, NobodyFollowsAnEvictedPromptOfAnotherRouter) {
  const auto prompt = MakePrompt(1, 200);
  a_.SetOtherPrompts({{.uncached_tokens = 200, .waited_ms = 1, .id = 5, .hashes = BlocksOf(prompt)}});
  a_.Heartbeat();
  sim_.DeliverAll();
  EXPECT_EQ(sim_.core.pending_count(), 1U);
  ASSERT_TRUE(sim_.core.Send(OrderOf(prompt), {}, sim_.clock.Now(), [](const auto&) {}).ok());
  EXPECT_EQ(sim_.core.pending_count(), 0U);
  a_.Heartbeat();  // the list has the prompt as ever
  sim_.DeliverAll();
  EXPECT_EQ(sim_.core.pending_count(), 0U);
}

TEST_F(FleetEvictTest, AnOpenRequestThatIsSentAgainLeavesNothing) {
  const auto prompt = MakePrompt(1, 40);
  const Request request = sim_.Submit(prompt, 40);
  const Request other = sim_.Submit(MakePrompt(2, 40), 40);
  sim_.Run(2);
  ASSERT_TRUE(Evict(OrderOf(prompt)).ok());
  const bool at_a = request.observer->workers.front() == "a";
  sim_.core.OnUnreachable((at_a ? a_ : b_).identity(), sim_.clock.Now());
  sim_.Run();
  ASSERT_TRUE(request.observer->end.has_value());
  EXPECT_EQ(request.observer->tokens, ExpectedOutput(prompt, 40));
  std::size_t again = 0;
  for (const wire::Generate& generate : (at_a ? b_ : a_).received()) {
    if (generate.block_hashes.front() != BlocksOf(prompt).front()) continue;
    EXPECT_EQ(generate.cache_mode, wire::CacheMode::kOff);
    ++again;
  }
  EXPECT_EQ(again, 1U);
}

TEST_F(FleetEvictTest, APredictedViewForgetsItsPredictions) {
  FleetSim sim;
  FakeWorker& worker = sim.AddWorker("p");
  worker.hello().sends_cache_events = false;
  worker.SayHello();
  sim.DeliverAll();
  const auto prompt = MakePrompt(1, 50);
  sim.Submit(prompt, 4);
  sim.Run();
  ASSERT_FALSE(sim.Match(BlocksOf(prompt)).empty());
  ASSERT_TRUE(sim.core.Send(OrderOf("hens"), {}, sim.clock.Now(), [](const auto&) {}).ok());
  EXPECT_TRUE(sim.Match(BlocksOf(prompt)).empty());
}

}  // namespace
}  // namespace roost::router

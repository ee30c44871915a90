// The fate of blocks that a worker computed for an earlier request, as the router tells it.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "router/fleet/requests/block_losses.h"
#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Kind = BlockLoss::Worker;
using Level = BlockLoss::Level;

class BlockLossesTest : public ::testing::Test {
 protected:
  // A request that worker a computes.
  void Compute() {
    GenerateSpec wishes;
    wishes.computed_by = std::make_shared<const ComputedBy>();
    sim_.Submit(prompt_, 3, wishes);
    EXPECT_EQ(wishes.computed_by->process(), 0U) << "no token has come yet";
    sim_.Run();
    before_.process = wishes.computed_by->process();
    EXPECT_EQ(before_.process, a_.hello().process_id);
  }
  // The loss that the next request's decision tells, asked so long after the one before.
  BlockLoss Loss(double seconds_ago = 0) {
    GenerateSpec wishes;
    wishes.answer_id = "next";
    wishes.comparison = before_;
    wishes.comparison.seconds_ago = seconds_ago;
    sim_.Submit(prompt_, 3, wishes);
    sim_.Run();
    const std::vector<DecisionRecord> records = sim_.core.decisions().Find("next");
    return records.empty() ? BlockLoss() : records.back().decision.loss;
  }

  const std::vector<TokenId> prompt_ = MakePrompt(1, 50);
  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  PromptComparison before_{.before = PromptComparison::Before::kFound, .token = 48};
};

TEST_F(BlockLossesTest, NothingIsKnownWithoutARequestBefore) {
  EXPECT_EQ(Loss().worker, Kind::kUnknown);
  before_.process = 4711;
  EXPECT_EQ(Loss().worker, Kind::kUnknown) << "so long ago that it is forgotten";
}

TEST_F(BlockLossesTest, AWorkerThatIsThereHasEvictedThem) {
  Compute();
  EXPECT_EQ(Loss().worker, Kind::kThere);
  EXPECT_EQ(Loss().level, Level::kMemory);
  a_.SetDisk(1e9, 1 << 16);
  sim_.Advance(200ms);
  EXPECT_EQ(Loss().level, Level::kDisk);
}

TEST_F(BlockLossesTest, AnEnginesCacheIsItsOwn) {
  sim_.Kill(a_);
  sim_.Advance(5s);
  a_.hello().engine = "vllm 0.32.0";
  sim_.Revive(a_);
  sim_.Advance(1s);
  Compute();
  EXPECT_EQ(Loss().level, Level::kEngine);
}

TEST_F(BlockLossesTest, AnotherWorkerThatHasThemMayBeClosed) {
  Compute();
  sim_.JoinWorker("b");
  a_.SetDraining(true);
  sim_.Advance(200ms);
  const BlockLoss loss = Loss();
  EXPECT_EQ(loss.worker, Kind::kClosed);
  EXPECT_EQ(loss.worker_id, "a");
}

TEST_F(BlockLossesTest, AWorkerThatSaidByeHasLeft) {
  Compute();
  sim_.JoinWorker("b");
  a_.SayBye();
  sim_.DeliverAll();
  sim_.Kill(a_);
  const BlockLoss loss = Loss();
  EXPECT_EQ(loss.worker, Kind::kLeft);
  EXPECT_EQ(loss.worker_id, "a");
}

TEST_F(BlockLossesTest, AWorkerThatFellSilentWasLostAndOneThatIsBackHasRestarted) {
  Compute();
  sim_.JoinWorker("b");
  sim_.Kill(a_);
  sim_.Advance(5s);
  EXPECT_EQ(Loss().worker, Kind::kLost);
  sim_.Revive(a_);
  sim_.Advance(1s);
  EXPECT_EQ(Loss().worker, Kind::kRestarted);
}

TEST_F(BlockLossesTest, AnOrderErasesWhatWasThereBefore) {
  Compute();
  sim_.Advance(10s);
  const std::shared_ptr<const ServedModel> model = sim_.core.models()->Main("demo");
  const EvictOrder order{.what = std::vector{PromptOfRevision{model, {RootHash({}), prompt_, BlocksOf(prompt_)}}},
                         .model = "demo"};
  ASSERT_TRUE(sim_.core.Send(order, {}, sim_.clock.Now(), [](std::vector<WorkerAnswer>) {}).ok());
  sim_.DeliverAll();
  sim_.Advance(10s);
  EXPECT_EQ(Loss(15).level, Level::kOperator);
  EXPECT_EQ(Loss(1).level, Level::kMemory) << "it was computed behind the order";
}

TEST_F(BlockLossesTest, TheLastOnesAreRemembered) {
  BlockLosses losses;
  WorkerRegistry registry({.worker = {}, .unix_seconds = [] { return std::int64_t{0}; }});
  wire::Hello hello = a_.hello();
  const auto add = [&](std::uint64_t process) -> const Worker& {
    hello.process_id = process;
    hello.worker_id = "w" + std::to_string(process);
    return **registry.Add(hello.worker_id, hello, Instant());
  };
  const Worker& chosen = add(1);
  for (std::uint64_t process = 2; process < 2 + 2 * BlockLosses::kMostGone; ++process) {
    losses.OnGone(add(process), Kind::kLeft);
    registry.Remove(hello.worker_id, Instant());
  }
  GenerateSpec spec;
  spec.comparison.process = hello.process_id;
  EXPECT_EQ(losses.Find({spec, chosen, {}, Instant()}, registry).worker, Kind::kLeft);
  spec.comparison.process = 2;
  EXPECT_EQ(losses.Find({spec, chosen, {}, Instant()}, registry).worker, Kind::kUnknown);
}

}  // namespace
}  // namespace roost::router

// Workers with disks: what the router knows of these, expects of them, and tells.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/router/fleet/fleet_sim.h"

namespace roost::router {
namespace {

using Request = FleetSim::Request;

constexpr std::uint64_t kBlockBytes = 1000;
constexpr double kFast = 1e9;

class FleetDiskTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 200;
  static constexpr std::uint32_t kTokens = kBlocks * FakeWorker::kBlockTokens;  // 80 ms of prefill at a fake worker

  FleetDiskTest() {
    for (TokenId seed = 100; seed < 140; ++seed) {  // the workers' speeds are known
      sim_.Submit(MakePrompt(seed, 200), 3);
      sim_.Run();
    }
    b_.SetDisk(kFast, kBlockBytes);
    b_.WriteToDisk(blocks_);
    b_.Heartbeat();
    sim_.DeliverAll();
  }
  [[nodiscard]] PromptMatch Match() {
    return sim_.core
        .Match({.model = sim_.core.models()->Main("demo"),
                .prompt_token_count = static_cast<std::uint32_t>(prompt_.size()),
                .block_hashes = blocks_},
               sim_.Match(blocks_), sim_.clock.Now())
        .value();
  }
  [[nodiscard]] PromptHolder HolderAt(const std::string& id) {
    for (const PromptHolder& holder : Match().holders) {
      if (holder.worker_id == id) return holder;
    }
    return {};
  }
  [[nodiscard]] DecisionRecord LastDecision() const { return sim_.core.decisions().Latest(1).front(); }

  FleetSim sim_;
  FakeWorker& a_ = sim_.JoinWorker("a");
  FakeWorker& b_ = sim_.JoinWorker("b");
  const std::vector<TokenId> prompt_ = MakePrompt(1, kTokens + 2);
  const std::vector<BlockHash> blocks_ = BlocksOf(prompt_);
};

TEST_F(FleetDiskTest, ARequestGoesWhereItsBlocksAreOnDiskAndIsPromisedThem) {
  const Request request = sim_.Submit(prompt_, 3);
  const DecisionRecord record = LastDecision();
  EXPECT_EQ(record.worker_id, "b");
  EXPECT_EQ(NameOf(record.decision.reason), "restore");
  EXPECT_EQ(record.decision.matched_tokens, kTokens);
  sim_.Run();
  EXPECT_EQ(b_.received().back().expected_cached_tokens, kTokens);
  EXPECT_EQ(request.observer->cached_token_count, kTokens);
  EXPECT_TRUE(b_.holds().empty());
  EXPECT_EQ(sim_.core.hold_count(), 0U);
  EXPECT_EQ(LastDecision().outcome->cached_tokens, kTokens);
  EXPECT_EQ(sim_.StatusOf("b")->in_flight_requests, 0U);
}

// Its blocks come from the disk once, for both.
TEST_F(FleetDiskTest, ARequestThatFollowsWaitsForTheSameRestore) {
  sim_.Submit(prompt_, 3);
  sim_.Submit(prompt_, 3);
  const Decision second = LastDecision().decision;
  EXPECT_EQ(LastDecision().worker_id, "b");
  EXPECT_FALSE(second.pull.has_value());
  EXPECT_EQ(second.matched_tokens, kTokens);
  EXPECT_EQ(second.arriving_tokens, kTokens);
  sim_.Run();
  EXPECT_EQ(sim_.core.pending_count(), 0U);
}

// Blocks that are to be restored for others go first, until their first tokens.
TEST_F(FleetDiskTest, RestoresUnderWayArePriced) {
  b_.SetDisk(1e7, kBlockBytes);  // 20 ms for a prompt
  std::vector<std::vector<TokenId>> prompts;
  for (TokenId seed = 11; seed < 14; ++seed) prompts.push_back(MakePrompt(seed, kTokens + 2));
  for (const auto& prompt : prompts) b_.WriteToDisk(BlocksOf(prompt));
  b_.Heartbeat();
  sim_.DeliverAll();
  a_.SetDraining(true);
  a_.Heartbeat();
  sim_.DeliverAll();
  std::vector<double> seconds;
  for (const auto& prompt : prompts) {
    sim_.Submit(prompt, 3);
    seconds.push_back(LastDecision().decision.pull.value().price.seconds);
  }
  EXPECT_NEAR(seconds[0], 0.02, 1e-9);
  EXPECT_NEAR(seconds[1], 0.04, 1e-9);
  EXPECT_NEAR(seconds[2], 0.06, 1e-9);
  sim_.Run();
  b_.Evict(FakeWorker::kBlockCount);
  b_.Step();
  sim_.DeliverAll();
  sim_.Submit(prompts[0], 3);
  EXPECT_NEAR(LastDecision().decision.pull.value().price.seconds, 0.02, 1e-9);
}

TEST_F(FleetDiskTest, MatchTellsWhatIsHeldAndWhatIsOnDisk) {
  b_.Keep({blocks_.begin(), blocks_.begin() + 50});
  b_.Heartbeat();
  sim_.DeliverAll();
  EXPECT_EQ(HolderAt("b").held_block_count, 50U);
  EXPECT_EQ(HolderAt("b").disk_block_count, kBlocks - 50);
  EXPECT_EQ(HolderAt("b").usable_block_count(), kBlocks);
  EXPECT_EQ(HolderAt("a").disk_block_count, 0U);
  EXPECT_EQ(Match().holders.front().worker_id, "b");
  EXPECT_EQ(Match().choice->cached_tokens, kTokens);
}

TEST_F(FleetDiskTest, AnEvictionTellsWhatLeftTheDisk) {
  b_.Keep({blocks_.begin(), blocks_.begin() + 50});
  std::vector<WorkerAnswer> answers;
  const EvictOrder order{.what = wire::BlockToEvict{blocks_[10]}};
  ASSERT_TRUE(
      sim_.core.Send(order, {}, sim_.clock.Now(), [&](std::vector<WorkerAnswer> told) { answers = std::move(told); })
          .ok());
  sim_.DeliverAll();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(std::get<wire::EvictAnswer>(answers[1].reply).evicted_block_count, 40U);
  EXPECT_EQ(std::get<wire::EvictAnswer>(answers[1].reply).disk_block_count, kBlocks - 10);
  EXPECT_EQ(HolderAt("b").held_block_count, 10U);
  EXPECT_EQ(HolderAt("b").disk_block_count, 0U);
}

TEST_F(FleetDiskTest, ADiskOutlivesItsWorkersProcess) {
  b_.Restart();
  sim_.DeliverAll();
  b_.SayHello();
  sim_.DeliverAll();
  EXPECT_EQ(HolderAt("b").held_block_count, 0U);
  EXPECT_EQ(HolderAt("b").disk_block_count, kBlocks);
}

TEST_F(FleetDiskTest, ADifferenceOnTheDiskIsHealedByASnapshot) {
  b_.DropFromDisk(10, FakeWorker::Telling::kIsSilent);
  b_.Heartbeat();
  sim_.DeliverAll();
  EXPECT_EQ(sim_.metrics.resyncs["digest"], 1);
  b_.Step();
  sim_.DeliverAll();
  EXPECT_EQ(HolderAt("b").disk_block_count, kBlocks - 10);
  EXPECT_TRUE(sim_.StatusOf("b")->index_in_sync);
}

TEST_F(FleetDiskTest, ALostWorkerTakesItsDiskAlong) {
  sim_.Kill(b_);
  sim_.Advance(std::chrono::seconds(5));
  EXPECT_TRUE(sim_.Match(blocks_).empty());
}

}  // namespace
}  // namespace roost::router

// Prompts that are computed at another worker than their answers: when that costs less, and why it is not done.
#include "router/route/apart.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/router/route/block_travel.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kBlocks = 64;
constexpr std::uint32_t kTokens = kBlocks * 16 + 1;  // 512 ms at 2,000 tokens/s

WorkerView With(std::uint32_t slot, wire::WorkerRole role, std::uint32_t running = 0) {
  WorkerView worker = Idle(slot);
  worker.role = role;
  worker.features.insert(wire::Feature::kFollows);
  worker.running_requests = running;
  return worker;
}
WorkerView Prefill(std::uint32_t slot) { return With(slot, wire::WorkerRole::kPrefill); }
WorkerView Decode(std::uint32_t slot, std::uint32_t running) { return With(slot, wire::WorkerRole::kDecode, running); }

class ApartTest : public ::testing::Test {
 protected:
  ApartTest() {
    for (std::uint32_t slot = 0; slot < 8; ++slot) transfers_.Join(WorkerSlot(slot), Place());
    Teach(transfers_, Pair(0, 1), 1e9);  // a block in 0.1 ms
  }
  // The decision without roles, and then the choice.
  [[nodiscard]] std::variant<Apart, Together> Choose(const std::vector<WorkerView>& workers,
                                                     const std::vector<WorkerMatch>& matches = {}) {
    const FleetView fleet = FleetOf(workers);
    const RouteQuery query{.prompt_token_count = kTokens,
                           .stage = Stage::kAnswer,
                           .matches = matches,
                           .block_hashes = hashes_,
                           .transfers = &transfers_,
                           .now = kNow};
    return ChooseApart(query, fleet, policy_->Choose(query, fleet).value());
  }
  [[nodiscard]] std::string_view WhyTogether(const std::vector<WorkerView>& workers,
                                             const std::vector<WorkerMatch>& matches = {}) {
    const auto choice = Choose(workers, matches);
    return std::holds_alternative<Together>(choice) ? NameOf(std::get<Together>(choice)) : "apart";
  }

  Transfers transfers_;
  const std::vector<BlockHash> hashes_ = Chain(1, kBlocks);
  const std::unique_ptr<Policy> policy_ = Make("cache-aware");
};

TEST_F(ApartTest, RunningAnswersSendAPromptAway) {
  const auto choice = Choose({Prefill(0), Decode(1, 8), Decode(2, 9)});
  ASSERT_TRUE(std::holds_alternative<Apart>(choice));
  const Apart& apart = std::get<Apart>(choice);
  EXPECT_EQ(apart.prefill.slot, WorkerSlot(0));
  EXPECT_EQ(apart.decode, WorkerSlot(1));
  EXPECT_EQ(apart.follow.source, WorkerSlot(0));
  EXPECT_EQ(apart.follow.first_block, 0U);
  EXPECT_EQ(apart.follow.block_count, kBlocks);
  EXPECT_LT(apart.cost_seconds, apart.together_seconds);
}

TEST_F(ApartTest, IdleWorkersKeepTheirPrompts) { EXPECT_EQ(WhyTogether({Prefill(0), Decode(1, 0)}), "price"); }

TEST_F(ApartTest, ABusyPrefillWorkerIsNoGain) {
  WorkerView busy = Prefill(0);
  busy.queued_prefill_tokens = 50'000;
  EXPECT_EQ(WhyTogether({busy, Decode(1, 8)}), "price");
}

TEST_F(ApartTest, WhatTheDecodeWorkerHoldsDoesNotTravel) {
  const auto choice = Choose({Prefill(0), Decode(1, 8)}, {Holds(1, 8), Holds(0, 8)});
  ASSERT_TRUE(std::holds_alternative<Apart>(choice));
  EXPECT_EQ(std::get<Apart>(choice).follow.first_block, 8U);
  EXPECT_EQ(std::get<Apart>(choice).follow.block_count, kBlocks - 8);
}

// The worker for prompts pulls what the other one holds, and computes the rest.
TEST_F(ApartTest, WhatThePrefillWorkerLacksItPullsFirst) {
  Teach(transfers_, Pair(1, 0), 1e9);
  const auto choice = Choose({Prefill(0), Decode(1, 30)}, {Holds(1, 40)});
  ASSERT_TRUE(std::holds_alternative<Apart>(choice));
  const Apart& apart = std::get<Apart>(choice);
  ASSERT_TRUE(apart.prefill.pull.has_value());
  EXPECT_EQ(apart.prefill.pull->source, WorkerSlot(1));
  EXPECT_EQ(apart.prefill.pull->block_count, 40U);
}

TEST_F(ApartTest, AlmostAllThatIsHeldStays) {
  EXPECT_EQ(WhyTogether({Prefill(0), Decode(1, 30)}, {Holds(1, kBlocks - 1)}), "few_blocks");
}

TEST_F(ApartTest, ASlowLinkKeepsThePrompt) {
  Teach(transfers_, Pair(0, 3), 1e5);
  EXPECT_EQ(WhyTogether({Prefill(0), Decode(3, 8)}), "price");
}

TEST_F(ApartTest, WorkersThatCanNotExchangeBlocksStayWhole) {
  transfers_.Leave(WorkerSlot(1));
  transfers_.Join(WorkerSlot(1), Place(8));
  EXPECT_EQ(WhyTogether({Prefill(0), Decode(1, 8)}), "no_way");
  transfers_.Leave(WorkerSlot(1));
  transfers_.Join(WorkerSlot(1), Place());
  WorkerView old = Decode(1, 8);
  old.features = {};
  EXPECT_EQ(WhyTogether({Prefill(0), old}), "no_way");
}

// Their blocks go from engine to engine: no worker fetches any.
TEST_F(ApartTest, EnginesWithConnectorsExchangeBlocksThemselves) {
  std::vector<WorkerView> workers{Prefill(6), Decode(7, 8)};
  for (WorkerView& worker : workers) worker.features = {wire::Feature::kConnector};
  const auto choice = Choose(workers);
  ASSERT_TRUE(std::holds_alternative<Apart>(choice)) << NameOf(std::get<Together>(choice));
  EXPECT_TRUE(std::get<Apart>(choice).by_connector);
  workers[1].handover_seconds = 60;
  EXPECT_EQ(WhyTogether(workers), "price");
  workers[1].features = {wire::Feature::kFollows};
  EXPECT_EQ(WhyTogether(workers), "no_way") << "one engine with a connector has nobody to talk to";
}

TEST_F(ApartTest, WithoutWorkersForPromptsNothingGoes) { EXPECT_EQ(WhyTogether({Decode(1, 8)}), "no_prefill_worker"); }

TEST_F(ApartTest, UnknownSpeedsHaveNoPrices) {
  std::vector<WorkerView> workers{Prefill(0), Decode(1, 8)};
  for (WorkerView& worker : workers) worker.prefill_tokens_per_second = 0;
  EXPECT_EQ(WhyTogether(workers), "unknown_speed");
}

TEST_F(ApartTest, WorkersOfEachRoleGetTheirStage) {
  RouteQuery query;
  for (const auto role : {wire::WorkerRole::kBoth, wire::WorkerRole::kPrefill, wire::WorkerRole::kDecode}) {
    const WorkerView worker = With(0, role);
    query.stage = Stage::kWhole;
    EXPECT_TRUE(MayTake(query, worker));
    query.stage = Stage::kAnswer;
    EXPECT_EQ(MayTake(query, worker), role != wire::WorkerRole::kPrefill);
    query.stage = Stage::kFirstToken;
    EXPECT_EQ(MayTake(query, worker), role == wire::WorkerRole::kPrefill);
  }
}

TEST_F(ApartTest, AFleetHasRolesWhileBothKindsAreThere) {
  FleetView fleet = FleetOf({Decode(1, 0)});
  EXPECT_FALSE(fleet.has_roles());
  fleet.Set(Prefill(0));
  EXPECT_TRUE(fleet.has_roles());
  fleet.Set(Prefill(0));
  EXPECT_TRUE(fleet.has_roles());
  fleet.Remove(WorkerSlot(1));
  EXPECT_FALSE(fleet.has_roles());
  fleet.Remove(WorkerSlot(0));
  EXPECT_FALSE(fleet.has_roles());
}

}  // namespace
}  // namespace roost::router

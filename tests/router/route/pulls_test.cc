// Candidates that fetch a prompt's blocks from another worker: from which one, and at what price.
#include "router/route/pulls.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "tests/router/route/block_travel.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kBlocks = 64;
constexpr std::uint32_t kTokens = kBlocks * 16 + 1;  // 512 ms at 2,000 tokens/s

WorkerView Busy(std::uint32_t slot, std::uint64_t queued_tokens) {
  WorkerView worker = Idle(slot);
  worker.queued_prefill_tokens = queued_tokens;
  return worker;
}

class PullsTest : public ::testing::Test {
 protected:
  PullsTest() {
    for (std::uint32_t slot = 0; slot < 8; ++slot) transfers_.Join(WorkerSlot(slot), Place());
  }
  [[nodiscard]] RouteQuery Query(const std::vector<WorkerMatch>& matches) const {
    return {.prompt_token_count = kTokens,
            .matches = matches,
            .block_hashes = hashes_,
            .transfers = &transfers_,
            .now = kNow};
  }
  [[nodiscard]] Decision Choose(const std::vector<WorkerView>& workers, const std::vector<WorkerMatch>& matches) {
    return policy_->Choose(Query(matches), FleetOf(workers)).value();
  }

  Transfers transfers_;
  const std::vector<BlockHash> hashes_ = Chain(1, kBlocks);
  const std::unique_ptr<Policy> policy_ = Make("cache-aware");
};

// 64 blocks take 64 ms; computing them takes 512 ms, and the holder computes 3 s for others before.
TEST_F(PullsTest, AnIdleWorkerFetchesWhatABusyOneHolds) {
  Teach(transfers_, Pair(0, 1), 1e8);
  const Decision decision = Choose({Busy(0, 6000), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(1));
  EXPECT_EQ(decision.reason, DecisionReason::kPull);
  EXPECT_EQ(NameOf(decision.reason), "pull");
  EXPECT_EQ(decision.matched_tokens, kBlocks * 16);
  EXPECT_EQ(decision.arriving_tokens, kBlocks * 16);
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->source, WorkerSlot(0));
  EXPECT_EQ(decision.pull->first_block, 0U);
  EXPECT_EQ(decision.pull->block_count, kBlocks);
  EXPECT_NEAR(decision.pull->price.seconds, 0.064, 1e-6);
  EXPECT_EQ(decision.pull->price.bytes, 64.0 * kBlockBytes);
  const Candidate& chosen = decision.candidates.front();
  EXPECT_EQ(chosen.way(), Way::kPull);
  EXPECT_NEAR(chosen.transfer_seconds, 0.064, 1e-6);
  EXPECT_NEAR(chosen.prefill_seconds, 1 / 2000.0, 1e-9) << "of what is computed";
  EXPECT_NEAR(chosen.displaced_seconds, (chosen.congestion - 1) * chosen.pulled_tokens / 2000.0, 1e-6);
  EXPECT_NEAR(decision.predicted_ttft_seconds, 0.064 + 1 / 2000.0 + 0.02, 1e-6);
  EXPECT_EQ(decision.candidates.back().way(), Way::kHeld);
}

TEST_F(PullsTest, ASlowPairLosesToComputing) {
  Teach(transfers_, Pair(0, 1), 1e6);
  const Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(1));
  EXPECT_FALSE(decision.pull.has_value());
  EXPECT_EQ(decision.candidates.front().way(), Way::kCompute);
  EXPECT_NE(decision.reason, DecisionReason::kPull);
}

TEST_F(PullsTest, AnIdleHolderIsPreferred) {
  Teach(transfers_, Pair(0, 1), 1e9);
  const Decision decision = Choose({Idle(0), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(0));
  EXPECT_FALSE(decision.pull.has_value());
}

TEST_F(PullsTest, WhatIsQueuedAtTheSourceCounts) {
  Teach(transfers_, Pair(0, 1), 1e8);
  wire::Load load;
  load.leaving_bytes = 1'000'000'000;  // ten seconds
  transfers_.Report(WorkerSlot(0), load, kNow);
  EXPECT_FALSE(Choose({Busy(0, 6000), Idle(1)}, {Holds(0, kBlocks)}).pull.has_value());
}

// Its blocks come while it computes what is before them.
TEST_F(PullsTest, ATransferOverlapsTheQueue) {
  Teach(transfers_, Pair(0, 1), 1e8);
  const Decision decision = Choose({Busy(0, 20'000), Busy(1, 1000)}, {Holds(0, kBlocks)});
  ASSERT_TRUE(decision.pull.has_value());
  const Candidate& chosen = decision.candidates.front();
  EXPECT_GT(chosen.queue_seconds, chosen.transfer_seconds);
  EXPECT_DOUBLE_EQ(chosen.ttft_seconds(), chosen.queue_seconds + chosen.prefill_seconds + chosen.decode_seconds);
}

// Cordoned, full and draining workers are in no fleet, and serve.
TEST_F(PullsTest, ASourceNeedNotTakeRequests) {
  Teach(transfers_, Pair(5, 1), 1e8);
  const Decision decision = Choose({Idle(1), Idle(2)}, {Holds(5, kBlocks)});
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->source, WorkerSlot(5));
}

TEST_F(PullsTest, OnlyTheRestIsFetched) {
  Teach(transfers_, Pair(0, 1), 1e8);
  const Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks), Holds(1, 10)});
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->first_block, 10U);
  EXPECT_EQ(decision.pull->block_count, kBlocks - 10);
  EXPECT_NEAR(decision.pull->price.seconds, 0.054, 1e-6);
  EXPECT_EQ(decision.candidates.front().pulled_tokens, (kBlocks - 10) * 16);
  EXPECT_EQ(decision.candidates.front().held_tokens(), 10U * 16);
}

// The last token is always computed, so its block is of no use.
TEST_F(PullsTest, ABlockWithNothingBehindItIsNotFetched) {
  Teach(transfers_, Pair(0, 1), 1e8);
  RouteQuery query = Query({});
  const std::vector<WorkerMatch> matches{Holds(0, kBlocks)};
  query.matches = matches;
  query.prompt_token_count = kBlocks * 16;
  const Decision decision = policy_->Choose(query, FleetOf({Busy(0, 6000), Idle(1)})).value();
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->block_count, kBlocks - 1);
}

// Blocks that a source is still computing can not be fetched; those that a candidate is computing are fetched too.
TEST_F(PullsTest, PendingBlocksAreNoSource) {
  Teach(transfers_, Pair(0, 1), 1e8);
  const WorkerMatch computing{.worker = WorkerSlot(0), .block_count = kBlocks, .pending_block_count = kBlocks};
  EXPECT_FALSE(Choose({Busy(0, 6000), Idle(1)}, {computing}).pull.has_value());
  WorkerMatch front = computing;
  front.pending_block_count = 40;
  const Decision decision = Choose({Busy(0, 60'000), Idle(1)}, {front});
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->block_count, kBlocks - 40);
}

// Blocks that come for another request are waited for, and not fetched once more.
TEST_F(PullsTest, BlocksOnTheirWayAreJoined) {
  Teach(transfers_, Pair(0, 1), 1e8);
  const WorkerMatch coming{
      .worker = WorkerSlot(1), .block_count = kBlocks, .pending_block_count = kBlocks, .pending_seconds = 0.05F};
  const Decision decision = Choose({Busy(0, 60'000), Idle(1)}, {Holds(0, kBlocks), coming});
  EXPECT_EQ(decision.slot, WorkerSlot(1));
  EXPECT_FALSE(decision.pull.has_value());
  EXPECT_EQ(decision.arriving_tokens, kBlocks * 16);
  EXPECT_EQ(decision.candidates.front().way(), Way::kHeld);
  EXPECT_NEAR(decision.predicted_ttft_seconds, 0.05 + 1 / 2000.0 + 0.02, 1e-6);
}

TEST_F(PullsTest, OfEqualSourcesTheOneWithTheLeastQueuedOut) {
  for (const std::uint32_t from : {2U, 3U, 4U, 5U, 6U}) Teach(transfers_, Pair(from, 1), 1e8);
  const auto load = [&](std::uint32_t slot, std::uint64_t leaving) {
    wire::Load told;
    told.leaving_bytes = leaving;
    transfers_.Report(WorkerSlot(slot), told, kNow);
  };
  for (const std::uint32_t slot : {2U, 3U, 4U, 6U}) load(slot, 1'000'000 * slot);
  const std::vector<WorkerMatch> matches{Holds(2, kBlocks), Holds(3, kBlocks), Holds(4, kBlocks), Holds(5, kBlocks),
                                         Holds(6, kBlocks)};
  EXPECT_EQ(Choose({Idle(1)}, matches).pull->source, WorkerSlot(5));
  load(5, 50'000'000);
  EXPECT_EQ(Choose({Idle(1)}, matches).pull->source, WorkerSlot(2));
}

// The deepest four are compared, and the fifth is not, though it would be the fastest.
TEST_F(PullsTest, FourSourcesAreCompared) {
  for (const std::uint32_t from : {2U, 3U, 4U, 5U}) Teach(transfers_, Pair(from, 1), 1e6);
  Teach(transfers_, Pair(6, 1), 1e9);
  const std::vector<WorkerMatch> matches{Holds(2, 64), Holds(3, 63), Holds(4, 62), Holds(5, 61), Holds(6, 60)};
  EXPECT_FALSE(Choose({Idle(1)}, matches).pull.has_value());
  transfers_.Leave(WorkerSlot(2));
  EXPECT_EQ(Choose({Idle(1)}, matches).pull->source, WorkerSlot(6)) << "one that is gone is not counted";
}

TEST_F(PullsTest, APairWithoutARateIsPricedWithMeans) {
  Teach(transfers_, Pair(0, 1), 1e8);
  Decision decision = Choose({Busy(0, 20'000), Busy(1, 20'000), Idle(2)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(2));
  ASSERT_TRUE(decision.pull.has_value()) << "as what came out of worker 0 so far";
  EXPECT_NEAR(decision.pull->price.seconds, 0.064, 1e-6);
  Teach(transfers_, Pair(0, 3), 1e6);
  for (int i = 0; i < 20; ++i) Teach(transfers_, Pair(0, 3), 1e6);
  decision = Choose({Busy(0, 20'000), Busy(1, 20'000), Idle(2)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(2));
  EXPECT_FALSE(decision.pull.has_value()) << "slow in the mean";
}

// Nothing is known of a slow pair any more: its next pull measures it again.
TEST_F(PullsTest, AnOldRateIsPricedWithTheMean) {
  Teach(transfers_, Pair(0, 1), 1e6);
  for (int i = 0; i < 20; ++i) Teach(transfers_, Pair(0, 2), 1e8);
  for (int i = 0; i < 20; ++i) Teach(transfers_, Pair(3, 1), 1e8);
  const std::vector<WorkerMatch> matches{Holds(0, kBlocks)};
  RouteQuery query = Query(matches);
  const FleetView fleet = FleetOf({Busy(0, 20'000), Idle(1)});
  EXPECT_FALSE(policy_->Choose(query, fleet)->pull.has_value());
  query.now = kNow + PairRates::kFreshTime;
  EXPECT_TRUE(policy_->Choose(query, fleet)->pull.has_value());
}

// One block has told its size, and no pair its rate.
TEST_F(PullsTest, TheFirstPairCountsAsAGigabyteASecond) {
  transfers_.Send(1, Pair(2, 3), 1, kNow);
  transfers_.End(1,
                 wire::HoldAnswer{.arrived_block_count = 1,
                                  .bytes = kBlockBytes,
                                  .first_frame_microseconds = 1'000'000,
                                  .microseconds = 1'000'000,
                                  .outcome = wire::HoldOutcome::kComplete},
                 kNow);
  const Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks)});
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_NEAR(decision.pull->price.seconds, 64.0 * kBlockBytes / 1e9, 1e-12);
}

TEST_F(PullsTest, APausedPairIsComputed) {
  Teach(transfers_, Pair(0, 1), 1e8);
  transfers_.Send(2, Pair(0, 1), 1, kNow);
  transfers_.End(2, wire::HoldAnswer{.outcome = wire::HoldOutcome::kBroken}, kNow);
  const Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_FALSE(decision.pull.has_value());
}

TEST_F(PullsTest, WithoutSpeedsThereIsNoPrice) {
  Teach(transfers_, Pair(0, 1), 1e8);
  WorkerView a = Busy(0, 20'000);
  WorkerView b = Idle(1);
  a.prefill_tokens_per_second = b.prefill_tokens_per_second = 0;
  EXPECT_FALSE(Choose({a, b}, {Holds(0, kBlocks)}).pull.has_value());
}

TEST_F(PullsTest, TheRulesOfOtherRoutersFetchNothing) {
  for (const std::uint32_t to : {1U, 2U}) Teach(transfers_, Pair(0, to), 1e8);
  const std::vector<WorkerMatch> matches{Holds(0, kBlocks)};
  for (const std::string_view name : PolicyNames()) {
    if (name == "cache-aware") continue;
    const Decision decision = Make(name)->Choose(Query(matches), FleetOf({Idle(1), Idle(2)})).value();
    EXPECT_FALSE(decision.pull.has_value()) << name;
    EXPECT_EQ(decision.matched_tokens, 0U) << name;
    for (const Candidate& candidate : decision.candidates) EXPECT_EQ(candidate.way(), Way::kCompute) << name;
  }
}

// A hot prefix is copied where it is fetched, for what makes room for it, instead of for what computing it costs.
TEST_F(PullsTest, ACopyThatIsFetchedIsCheaper) {
  const auto copies_at = [&](const Transfers* transfers) {
    const std::unique_ptr<Policy> policy = Make("cache-aware");
    const std::vector<WorkerMatch> matches{Holds(0, kBlocks)};
    RouteQuery query = Query(matches);
    query.transfers = transfers;
    for (int i = 1; i < 1000; ++i) {
      const Decision decision = policy->Choose(query, FleetOf({Busy(0, 400), Busy(1, 100)})).value();
      if (decision.copy.has_value()) return i;
    }
    return 1000;
  };
  Teach(transfers_, Pair(0, 1), 3e7);  // 210 ms: less than computing, more than waiting
  const int fetched = copies_at(&transfers_);
  const int computed = copies_at(nullptr);
  EXPECT_LT(fetched, computed);
}

// ---- restores ----

class RestoresTest : public ::testing::Test {
 protected:
  [[nodiscard]] static WorkerView WithDisk(WorkerView worker, double bytes_per_second) {
    worker.disk_bytes_per_second = bytes_per_second;
    worker.disk_block_bytes = kBlockBytes;
    return worker;
  }
  [[nodiscard]] static WorkerMatch OnDisk(std::uint32_t slot, std::uint32_t block_count) {
    return {DiskOf(WorkerSlot(slot)), block_count};
  }
  [[nodiscard]] Decision Choose(const std::vector<WorkerView>& workers, const std::vector<WorkerMatch>& matches,
                                std::string_view policy = "cache-aware") const {
    const RouteQuery query{.prompt_token_count = kTokens, .matches = matches, .block_hashes = hashes_, .now = kNow};
    return Make(policy)->Choose(query, FleetOf(workers)).value();
  }

  const std::vector<BlockHash> hashes_ = Chain(1, kBlocks);
};

// 64 blocks take 64 ms; computing them takes 512 ms.
TEST_F(RestoresTest, WhatTheOwnDiskHasIsPricedByItsTransfer) {
  const Decision decision = Choose({WithDisk(Idle(0), 1e8), Idle(1)}, {OnDisk(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(0));
  EXPECT_EQ(NameOf(decision.reason), "restore");
  EXPECT_EQ(decision.matched_tokens, kBlocks * 16);
  EXPECT_EQ(decision.arriving_tokens, kBlocks * 16) << "a slow disk breaks no promise";
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->source, WorkerSlot(0));
  EXPECT_EQ(decision.pull->block_count, kBlocks);
  EXPECT_EQ(decision.pull->price.bytes, 64.0 * kBlockBytes);
  const Candidate& chosen = decision.candidates.front();
  EXPECT_EQ(NameOf(chosen.way()), "restore");
  EXPECT_EQ(chosen.disk_tokens, kBlocks * 16);
  EXPECT_NEAR(chosen.transfer_seconds, 0.064, 1e-6);
  EXPECT_EQ(chosen.displaced_seconds, 0) << "what makes room goes to the disk";
  EXPECT_EQ(decision.candidates.back().way(), Way::kCompute);
}

TEST_F(RestoresTest, ADiskServesItsOwnWorkerOnly) {
  const Decision decision = Choose({WithDisk(Busy(0, 20'000), 1e8), WithDisk(Idle(1), 1e8)}, {OnDisk(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(1));
  EXPECT_EQ(decision.matched_tokens, 0U);
  EXPECT_FALSE(decision.pull.has_value());
}

TEST_F(RestoresTest, ADiskThatIsOffOrSlowLosesToComputing) {
  for (const double rate : {0.0, 1e6}) {
    const Decision decision = Choose({WithDisk(Idle(0), rate)}, {OnDisk(0, kBlocks)});
    EXPECT_FALSE(decision.pull.has_value()) << rate;
    EXPECT_EQ(decision.matched_tokens, 0U);
    EXPECT_EQ(decision.candidates.front().disk_tokens, rate > 0 ? kBlocks * 16 : 0);
  }
}

TEST_F(RestoresTest, OnlyTheRestComesFromTheDisk) {
  const Decision decision = Choose({WithDisk(Idle(0), 1e8)}, {OnDisk(0, kBlocks), Holds(0, 10)});
  ASSERT_TRUE(decision.pull.has_value());
  EXPECT_EQ(decision.pull->first_block, 10U);
  EXPECT_EQ(decision.pull->block_count, kBlocks - 10);
  EXPECT_EQ(decision.candidates.front().held_tokens(), 160U);
  EXPECT_EQ(decision.candidates.front().disk_tokens, (kBlocks - 10) * 16);
}

TEST_F(RestoresTest, WhatOtherRequestsRestoreThereGoesFirst) {
  WorkerView worker = WithDisk(Idle(0), 1e8);
  worker.restoring_bytes = 1e7;
  EXPECT_NEAR(Choose({worker}, {OnDisk(0, kBlocks)}).candidates.front().transfer_seconds, 0.164, 1e-6);
  worker.restoring_bytes = 1e9;
  EXPECT_FALSE(Choose({worker}, {OnDisk(0, kBlocks)}).pull.has_value());
}

// The holders of a short front, and the least loaded, would leave it out.
TEST_F(RestoresTest, AWorkerWithADeepDiskIsAmongTheCandidates) {
  std::vector<WorkerView> workers;
  std::vector<WorkerMatch> matches{OnDisk(40, kBlocks)};
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    workers.push_back(Idle(slot));
    matches.push_back(Holds(slot, 2));
  }
  workers.push_back(WithDisk(Busy(40, 10), 1e9));
  EXPECT_EQ(Choose(workers, matches).slot, WorkerSlot(40));
}

// The worker restores whatever chose it.
TEST_F(RestoresTest, EveryPolicyExpectsIt) {
  const Decision decision =
      Choose({WithDisk(Idle(0), 1e8), WithDisk(Idle(1), 1e8)}, {OnDisk(0, kBlocks), OnDisk(1, kBlocks)}, "round-robin");
  EXPECT_EQ(decision.matched_tokens, kBlocks * 16);
  EXPECT_EQ(decision.arriving_tokens, kBlocks * 16);
}

TEST_F(RestoresTest, ADiskIsNoCopyOfAHotPrefix) {
  RouteQuery query{.prompt_token_count = kTokens, .block_hashes = hashes_, .min_copies = 2, .now = kNow};
  const std::vector<WorkerMatch> matches{OnDisk(0, kBlocks), Holds(0, kBlocks)};
  query.matches = matches;
  const FleetView fleet = FleetOf({WithDisk(Idle(0), 1e8), Idle(1)});
  const std::unique_ptr<Policy> policy = Make("cache-aware");
  bool copies = false;
  for (int i = 0; i < 5; ++i) copies |= policy->Choose(query, fleet)->copy.has_value();
  EXPECT_TRUE(copies) << "two holders are wanted, and the disk is none";
}

}  // namespace
}  // namespace roost::router

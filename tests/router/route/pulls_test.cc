// Candidates that fetch a prompt's blocks from another worker: from which one, and at what price.
#include "router/route/pulls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "router/route/cache_aware.h"
#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{1h};
constexpr std::uint32_t kBlocks = 64;
constexpr std::uint32_t kTokens = kBlocks * 16 + 1;  // 512 ms at 2,000 tokens/s
constexpr std::uint64_t kBlockBytes = 100'000;

TransferPlace Place(std::uint64_t layout = 7) {
  return {.fetches = true,
          .serves = true,
          .is_loopback = false,
          .tells_bytes = true,
          .layout = layout,
          .numerics = 0,
          .host = 0};
}

WorkerPair Pair(std::uint32_t from, std::uint32_t to) { return {.from = WorkerSlot(from), .to = WorkerSlot(to)}; }

// The pair gives so many bytes a second, at once.
void Teach(Transfers& transfers, WorkerPair ends, double bytes_per_second) {
  const auto block_us = static_cast<std::uint64_t>(1e6 * kBlockBytes / bytes_per_second);
  transfers.Send(1, ends, 10, kNow);
  transfers.End(1,
                wire::HoldAnswer{.arrived_block_count = 10,
                                 .bytes = 10 * kBlockBytes,
                                 .first_frame_microseconds = block_us,
                                 .microseconds = 10 * block_us,
                                 .outcome = wire::HoldOutcome::kComplete},
                kNow);
}

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

TEST_F(PullsTest, APairWithoutARateIsPricedWithMeansAndMeasuredOnlyIfThatLoses) {
  Teach(transfers_, Pair(0, 1), 1e8);
  Decision decision = Choose({Busy(0, 20'000), Busy(1, 20'000), Idle(2)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(2));
  ASSERT_TRUE(decision.pull.has_value()) << "as what came out of worker 0 so far";
  EXPECT_NEAR(decision.pull->price.seconds, 0.064, 1e-6);
  EXPECT_FALSE(decision.measure.has_value()) << "the pull itself measures it";
  Teach(transfers_, Pair(0, 3), 1e6);
  for (int i = 0; i < 20; ++i) Teach(transfers_, Pair(0, 3), 1e6);
  decision = Choose({Busy(0, 20'000), Busy(1, 20'000), Idle(2)}, {Holds(0, kBlocks)});
  EXPECT_EQ(decision.slot, WorkerSlot(2));
  EXPECT_FALSE(decision.pull.has_value()) << "slow in the mean";
  ASSERT_TRUE(decision.measure.has_value()) << "as fast as the fastest it would win";
  EXPECT_EQ(decision.measure->ends, Pair(0, 2));
  EXPECT_EQ(decision.measure->first_block, 0U);
  EXPECT_EQ(decision.measure->block_count, kBlocks);
}

TEST_F(PullsTest, AMeasurementIsBounded) {
  Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_FALSE(decision.pull.has_value());
  ASSERT_TRUE(decision.measure.has_value());
  EXPECT_EQ(decision.measure->block_count, 1U) << "the size of a block is not known";
  Transfers big;
  for (std::uint32_t slot = 0; slot < 8; ++slot) big.Join(WorkerSlot(slot), Place());
  big.Send(1, Pair(2, 3), 2, kNow);
  big.End(1,
          wire::HoldAnswer{.arrived_block_count = 2,
                           .bytes = 2U << 20U,
                           .first_frame_microseconds = 1'000'000,
                           .microseconds = 2'000'000,
                           .outcome = wire::HoldOutcome::kComplete},
          kNow);
  RouteQuery query = Query({});
  const std::vector<WorkerMatch> matches{Holds(0, kBlocks)};
  query.matches = matches;
  query.transfers = &big;
  decision = policy_->Choose(query, FleetOf({Busy(0, 20'000), Idle(1)})).value();
  EXPECT_FALSE(decision.measure.has_value()) << "even as fast as the fastest it would lose";
  EXPECT_EQ(big.BlocksToMeasure(WorkerSlot(0)), 16U);
}

TEST_F(PullsTest, NothingIsMeasuredWhereNothingWouldBeGained) {
  EXPECT_FALSE(Choose({Idle(0), Idle(1)}, {Holds(0, kBlocks)}).measure.has_value());
}

TEST_F(PullsTest, APausedPairIsComputed) {
  Teach(transfers_, Pair(0, 1), 1e8);
  transfers_.Send(2, Pair(0, 1), 1, kNow);
  transfers_.End(2, wire::HoldAnswer{.outcome = wire::HoldOutcome::kBroken}, kNow);
  const Decision decision = Choose({Busy(0, 20'000), Idle(1)}, {Holds(0, kBlocks)});
  EXPECT_FALSE(decision.pull.has_value());
  EXPECT_FALSE(decision.measure.has_value());
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

// ---- against a naive model ----

// The cost of a way, each term from its definition.
double CostBy(const Candidate& base, const Candidate& pulling, const TransferPrice& price, double rate) {
  const double wait = std::max(base.pace * pulling.queue_seconds, price.seconds);
  const double computing = pulling.pulled_tokens / rate;
  const double displaced = (pulling.congestion - 1) * computing;
  return wait +
         pulling.pace *
             (pulling.growth_seconds + pulling.congestion * (pulling.prefill_seconds + pulling.decode_seconds) +
              pulling.delay_seconds + pulling.stall_seconds + displaced) +
         pulling.answer_pace * (pulling.answer_seconds + pulling.slo_seconds);
}

struct NaiveWay {
  double cost = 0;
  std::optional<WorkerSlot> source;
};

// Tries every source of those that count.
NaiveWay CheapestWay(const RouteQuery& query, const FleetView& fleet, const WorkerView& worker) {
  const Candidate base = PredictCost(PromptOn(query, worker.slot), worker, fleet.speed(), query.now);
  NaiveWay best{base.cost_seconds(), std::nullopt};
  const WorkerMatch* own = nullptr;
  std::vector<std::pair<std::uint32_t, WorkerSlot>> sources;
  for (const WorkerMatch& match : query.matches) {
    if (match.worker == worker.slot) own = &match;
    sources.emplace_back(match.block_count - match.pending_block_count, match.worker);
  }
  const std::uint32_t matched = own == nullptr ? 0 : own->block_count;
  const std::uint32_t computing = own == nullptr || own->pending_seconds > 0 ? 0 : own->pending_block_count;
  const std::uint32_t first = matched - computing;
  const std::uint32_t usable = (query.prompt_token_count - 1) / worker.block_tokens;
  std::sort(sources.begin(), sources.end(), [&](const auto& a, const auto& b) {
    return std::make_tuple(~a.first, query.transfers->QueuedOut(a.second), a.second) <
           std::make_tuple(~b.first, query.transfers->QueuedOut(b.second), b.second);
  });
  int tried = 0;
  for (const auto& [held, slot] : sources) {
    const std::uint32_t end = std::min(held, usable);
    if (end <= matched || tried == 4) break;
    const auto offer = query.transfers->Offer({.from = slot, .to = worker.slot}, end - first, *query.now);
    if (!offer) continue;
    ++tried;
    if (!offer->price) continue;
    PromptOnWorker prompt = PromptOn(query, worker.slot);
    const double arriving = prompt.pending_seconds;
    prompt.matched_block_count = end;  // as if it held them
    prompt.pending_block_count = 0;
    prompt.pending_seconds = 0;
    Candidate pulling = PredictCost(prompt, worker, fleet.speed(), query.now);
    pulling.pulled_tokens = pulling.matched_tokens - base.matched_tokens;
    TransferPrice price = *offer->price;
    price.seconds = std::max(price.seconds, arriving);
    const double rate = worker.prefill_tokens_per_second > 0 ? worker.prefill_tokens_per_second
                                                             : fleet.speed().prefill_tokens_per_second;
    const double cost = CostBy(base, pulling, price, rate);
    if (cost < best.cost - 1e-12) best = {cost, slot};
  }
  return best;
}

// Random workers of two kinds, some of which serve, with random rates, queues and pauses.
void Fill(Transfers& transfers, Rng& rng) {
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    TransferPlace place = Place(7 + rng.Below(2));
    place.fetches = rng.Below(4) > 0;
    place.serves = rng.Below(3) > 0;
    transfers.Join(WorkerSlot(slot), place);
  }
  for (int i = 0; i < 200; ++i) {
    const WorkerPair ends = Pair(static_cast<std::uint32_t>(rng.Below(40)), static_cast<std::uint32_t>(rng.Below(40)));
    Teach(transfers, ends, 1e5 * static_cast<double>(1 + rng.Below(1000)));
    if (rng.Below(8) > 0) continue;
    transfers.Send(1, ends, 1, kNow);
    transfers.End(1, wire::HoldAnswer{.outcome = wire::HoldOutcome::kBroken}, kNow);
  }
  for (std::uint32_t slot = 0; slot < 40; ++slot) {
    wire::Load load;
    load.leaving_bytes = rng.Below(2) * rng.Below(10'000'000);
    load.arriving_bytes = rng.Below(2) * rng.Below(10'000'000);
    transfers.Report(WorkerSlot(slot), load, kNow);
  }
}

// The answer has its length for bounds too: ttft counts there, so this compares without them.
TEST(PullsModelTest, EachCandidateHasItsCheapestWay) {
  Rng rng(11);
  int pulling = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    Situation situation = RandomSituation(rng);
    if (situation.matches.size() > Pulls::kMaxListed) situation.matches.resize(Pulls::kMaxListed);
    for (WorkerMatch& match : situation.matches) {
      match.pending_block_count = rng.Below(3) == 0 ? static_cast<std::uint32_t>(rng.Below(match.block_count + 1)) : 0;
      if (match.pending_block_count > 0 && rng.Below(2) == 0) match.pending_seconds = static_cast<float>(rng.Uniform());
    }
    Transfers transfers;
    Fill(transfers, rng);
    RouteQuery query = situation.query();
    query.transfers = &transfers;
    query.now = kNow;
    const std::vector<Candidate> candidates = FindCandidates(query, situation.fleet);
    const double least = candidates.empty() ? 0 : candidates.front().cost_seconds();
    for (const Candidate& candidate : candidates) {
      const WorkerView& worker = *situation.fleet.Find(candidate.slot);
      const NaiveWay naive = situation.fleet.speed().is_known() ? CheapestWay(query, situation.fleet, worker)
                                                                : NaiveWay{candidate.cost_seconds(), std::nullopt};
      // Ways that would not have won are not looked for.
      if (!candidate.pull && naive.cost > least + std::min(kTieSeconds, kTieShare * least)) continue;
      EXPECT_NEAR(candidate.cost_seconds(), naive.cost, 1e-9 * std::max(1.0, naive.cost));
      EXPECT_EQ(candidate.pull.has_value(), naive.source.has_value());
      pulling += candidate.pull.has_value() ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(pulling, 1000);
}

// Where no worker can fetch, and where the fleet has no transfers: the same decisions, bit for bit.
TEST(PullsModelTest, WithoutPullsNothingChanges) {
  Rng rng(12);
  Transfers idle;
  for (std::uint32_t slot = 0; slot < 40; ++slot) idle.Join(WorkerSlot(slot), {});
  for (int round = 0; round < 1000; ++round) {
    const Situation situation = RandomSituation(rng);
    RouteQuery query = situation.query();
    query.now = kNow;
    const std::vector<Candidate> before = FindCandidates(query, situation.fleet);
    query.transfers = &idle;
    std::optional<HopefulPull> hope;
    const std::vector<Candidate> after = FindCandidates(query, situation.fleet, &hope);
    EXPECT_FALSE(hope.has_value());
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].slot, after[i].slot);
      EXPECT_EQ(before[i].cost_seconds(), after[i].cost_seconds());
      EXPECT_EQ(after[i].transfer_seconds, 0);
      EXPECT_EQ(after[i].displaced_seconds, 0);
    }
  }
}

}  // namespace
}  // namespace roost::router

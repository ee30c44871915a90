#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "router/route/cache_aware.h"
#include "router/route/candidates.h"
#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 1600;

using Matches = std::vector<WorkerMatch>;

Decision Choose(const std::vector<WorkerView>& workers, const Matches& matches,
                std::uint32_t prompt_tokens = kPromptTokens) {
  return Make("cache-aware")
      ->Choose({.prompt_token_count = prompt_tokens, .matches = matches}, FleetOf(workers))
      .value();
}

WorkerView Queued(WorkerView worker, std::uint64_t tokens) {
  worker.queued_prefill_tokens = tokens;
  return worker;
}

TEST(CacheAwarePolicyTest, DecidesAsTheSituationAsks) {
  WorkerView slow = Idle(1);
  slow.prefill_tokens_per_second = 200;
  struct Case {
    const char* situation;
    std::vector<WorkerView> workers;
    Matches matches;
    std::uint32_t expected_slot;
    DecisionReason expected_reason;
  };
  const std::vector<Case> cases = {
      {"deepest match wins when all are idle",
       {Idle(0), Idle(1), Idle(2)},
       {Holds(1, 90), Holds(0, 10)},
       1,
       DecisionReason::kDeepestMatch},
      {"saturated holder loses to an idle empty worker",
       {Idle(0), Queued(Idle(1), 20'000)},
       {Holds(1, 99)},
       0,
       DecisionReason::kMinLoad},
      {"holder wins while its queue is shorter than the prefill that it saves",
       {Idle(0), Queued(Idle(1), 400)},
       {Holds(1, 99)},
       1,
       DecisionReason::kDeepestMatch},
      {"slow worker loses", {Idle(0), slow}, {}, 0, DecisionReason::kMinLoad},
      {"slow holder of little loses", {Idle(0), slow}, {Holds(1, 20)}, 0, DecisionReason::kMinLoad},
      {"busy worker loses among empty ones", {Idle(0), Queued(Idle(1), 5000)}, {}, 0, DecisionReason::kMinLoad},
      {"the only worker is taken, however loaded",
       {Queued(Idle(1), 20'000)},
       {Holds(1, 99)},
       1,
       DecisionReason::kOnlyWorker},
  };
  for (const Case& c : cases) {
    const Decision decision = Choose(c.workers, c.matches);
    EXPECT_EQ(decision.slot.value(), c.expected_slot) << c.situation;
    EXPECT_EQ(NameOf(decision.reason), NameOf(c.expected_reason)) << c.situation;
  }
}

TEST(CacheAwarePolicyTest, DecisionExplainsItself) {
  const Decision decision = Choose({Idle(0), Idle(1)}, {Holds(1, 90)});
  EXPECT_EQ(decision.matched_tokens, 90U * 16);
  EXPECT_DOUBLE_EQ(decision.predicted_ttft_seconds, (kPromptTokens - 90.0 * 16) / 2000 + 0.02);
  EXPECT_TRUE(decision.in_seconds);
  ASSERT_EQ(decision.candidates.size(), 2U);
  EXPECT_EQ(decision.candidates[0].slot.value(), 1U);  // the cheapest first
  EXPECT_DOUBLE_EQ(decision.candidates[1].prefill_seconds, 0.8);
}

TEST(CacheAwarePolicyTest, WithoutRatesAffinityYieldsToTheBatchAndSecondsAreNone) {
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  for (WorkerView& worker : workers) worker.prefill_tokens_per_second = worker.decode_step_seconds = 0;
  const Matches half{Holds(0, 50)};
  EXPECT_EQ(Choose(workers, half).slot.value(), 0U);
  EXPECT_FALSE(Choose(workers, half).in_seconds);
  workers[0].running_requests = 3;
  EXPECT_EQ(Choose(workers, half).slot.value(), 1U);
}

TEST(CacheAwarePolicyTest, WithoutRatesAHeldPromptIsNotPiledOnItsHolder) {
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  for (WorkerView& worker : workers) worker.prefill_tokens_per_second = worker.decode_step_seconds = 0;
  const auto policy = Make("cache-aware");
  const Matches all{Holds(0, 31)};
  for (int i = 0; i < 10; ++i) {
    const RouteQuery query{.prompt_token_count = 500, .answer = {.own = 400, .of_others = 400}, .matches = all};
    ++workers[policy->Choose(query, FleetOf(workers))->slot.value()].waiting_requests;
  }
  EXPECT_GE(workers[0].waiting_requests, 5U);
  EXPECT_GE(workers[1].waiting_requests, 3U);
}

TEST(CacheAwarePolicyTest, EqualWorkersTakeTurns) {
  std::vector<WorkerView> workers{Idle(0), Idle(1), Idle(2), Idle(3)};
  const auto policy = Make("cache-aware");
  std::vector<std::uint32_t> order;
  for (std::uint64_t number = 1; number <= 8; ++number) {
    const Decision decision = policy->Choose({.prompt_token_count = kPromptTokens}, FleetOf(workers)).value();
    ASSERT_EQ(decision.reason, DecisionReason::kNearTie);
    order.push_back(decision.slot.value());
    workers[order.back()].last_sent = number;
  }
  EXPECT_THAT(order, testing::UnorderedElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_TRUE(std::equal(order.begin(), order.begin() + 4, order.begin() + 4));
}

TEST(CacheAwarePolicyTest, NearTiePrefersDeeperMatchThenShorterWait) {
  // First the queue there costs slightly more than the match saves, then clearly more.
  const Decision tied = Choose({Queued(Idle(0), 1590), Idle(1)}, {Holds(0, 50), Holds(1, 1)});
  EXPECT_EQ(tied.candidates.front().slot.value(), 1U);
  EXPECT_EQ(tied.slot.value(), 0U);
  EXPECT_EQ(tied.reason, DecisionReason::kDeepestMatch);
  EXPECT_EQ(Choose({Queued(Idle(0), 1640), Idle(1)}, {Holds(0, 50), Holds(1, 1)}).slot.value(), 1U);
  EXPECT_EQ(Choose({Queued(Idle(1), 10), Idle(2)}, {}).slot.value(), 2U);
}

// A small model's answer may take no longer than a tie, so that the request beside it counts though it adds 5 ms.
TEST(CacheAwarePolicyTest, NearTieIsAShareOfWhatCostsLittle) {
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  for (WorkerView& worker : workers) {
    worker.decode_step_seconds = 0.0001;
    worker.decode = {.base_seconds = 0.0001, .per_request_seconds = 0.0001};
  }
  workers[0].running_requests = 1;
  workers[1].last_sent = 9;
  const Matches both{Holds(0, 1), Holds(1, 1)};
  const RouteQuery query{.prompt_token_count = 32, .answer = {.own = 50, .of_others = 50}, .matches = both};
  const Decision decision = Make("cache-aware")->Choose(query, FleetOf(workers)).value();
  ASSERT_EQ(decision.candidates.size(), 2U);
  EXPECT_LT(decision.candidates[1].cost_seconds() - decision.candidates[0].cost_seconds(), kTieSeconds);
  EXPECT_EQ(decision.slot.value(), 1U);
}

// Idle workers all look alike; each must get its share of new prefixes, however many workers there are.
TEST(CacheAwarePolicyTest, IdleFleetFillsEvenly) {
  const auto policy = Make("cache-aware");
  FleetView fleet;
  for (std::uint32_t slot = 0; slot < 32; ++slot) fleet.Set(Idle(slot));
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t i = 1; i <= 3200; ++i) {
    const Decision decision = policy->Choose({.prompt_token_count = kPromptTokens}, fleet).value();
    ++counts[decision.slot.value()];
    WorkerView chosen = *fleet.Find(decision.slot);  // completed at once
    chosen.last_sent = i;
    fleet.Set(chosen);
  }
  ASSERT_EQ(counts.size(), 32U);
  for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 100, 20) << slot;
}

// Measured speeds are never exactly equal.
TEST(CacheAwarePolicyTest, IdleFleetFillsEvenlyThoughSpeedsAreMeasured) {
  const auto policy = Make("cache-aware");
  Rng rng(3);
  FleetView fleet;
  for (std::uint32_t slot = 0; slot < 8; ++slot) fleet.Set(Idle(slot));
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t i = 1; i <= 800; ++i) {
    const Decision decision = policy->Choose({.prompt_token_count = kPromptTokens}, fleet).value();
    ++counts[decision.slot.value()];
    WorkerView chosen = *fleet.Find(decision.slot);
    chosen.last_sent = i;
    chosen.prefill_tokens_per_second = 2000 * (0.94 + 0.12 * rng.Uniform());
    fleet.Set(chosen);
  }
  ASSERT_EQ(counts.size(), 8U);
  for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 100, 20) << slot;
}

TEST(CacheAwarePolicyTest, MillisecondsDecideNothing) {
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  for (WorkerView& worker : workers) worker.decode_step_seconds = 0.001;
  workers[0].queued_prefill_tokens = 15;  // 7.5 ms
  EXPECT_EQ(Choose(workers, {Holds(0, 1)}, 20).slot.value(), 0U);
  EXPECT_EQ(Choose(workers, {}, 20).slot.value(), 1U);  // with equal matches it goes elsewhere
}

// The choice moves once as the holder's queue grows: at the point where waiting costs twice what the match saves (see
// cost.h). It does not move earlier, and does not move back.
TEST(CacheAwarePolicyTest, GrowingQueueMovesTheChoiceOnceAndAtTheBreakEvenPoint) {
  int changes = 0;
  std::uint32_t previous = 1;
  std::uint64_t moved_at = 0;
  for (std::uint64_t queued = 0; queued <= 4000; queued += 20) {
    const std::uint32_t slot = Choose({Idle(0), Queued(Idle(1), queued)}, {Holds(1, 80)}).slot.value();
    if (slot != previous) {
      ++changes;
      moved_at = queued;
    }
    previous = slot;
  }
  EXPECT_EQ(changes, 1);
  EXPECT_NEAR(static_cast<double>(moved_at), 2 * 80 * 16, 0.1 * kPromptTokens);
}

TEST(CacheAwarePolicyTest, BusyFleetWaitsLongerForAMatch) {
  std::vector<WorkerView> workers{Idle(0), Queued(Idle(1), 6000)};
  EXPECT_EQ(Choose(workers, {Holds(1, 99)}).slot.value(), 0U);
  for (WorkerView& worker : workers) worker.busy_share = 0.8;
  EXPECT_EQ(Choose(workers, {Holds(1, 99)}).slot.value(), 1U);
}

// Requests with one prefix arrive faster than any worker can serve them; each is charged to the worker that gets it.
TEST(CacheAwarePolicyTest, OneHotPrefixDoesNotPinEverything) {
  const auto policy = Make("cache-aware");
  FleetView fleet = FleetOf({Idle(0), Idle(1), Idle(2), Idle(3)});
  Matches matches{Holds(0, 90)};
  for (int i = 0; i < 200; ++i) {
    const Decision decision = policy->Choose({.prompt_token_count = kPromptTokens, .matches = matches}, fleet).value();
    WorkerView chosen = *fleet.Find(decision.slot);
    chosen.queued_prefill_tokens += kPromptTokens - decision.matched_tokens;
    ++chosen.waiting_requests;
    fleet.Set(chosen);
    const auto known = std::find_if(matches.begin(), matches.end(),
                                    [&](const WorkerMatch& match) { return match.worker == decision.slot; });
    if (known == matches.end()) matches.push_back({decision.slot, 90});
  }
  for (const WorkerView& worker : fleet.workers()) EXPECT_GT(worker.waiting_requests, 40U) << worker.slot.value();
}

// Compares the burst with balancing alone: affinity may not make it end later.
TEST(CacheAwarePolicyTest, BurstEndsNoLaterThanWithoutAffinity) {
  const auto longest_queue = [](std::string_view name) {
    const auto policy = Make(name);
    FleetView fleet = FleetOf({Idle(0), Idle(1), Idle(2), Idle(3)});
    Matches matches;
    for (int i = 0; i < 100; ++i) {
      const Decision decision =
          policy->Choose({.prompt_token_count = kPromptTokens, .matches = matches}, fleet).value();
      WorkerView chosen = *fleet.Find(decision.slot);
      chosen.queued_prefill_tokens += kPromptTokens - decision.matched_tokens;
      ++chosen.in_flight_requests;
      fleet.Set(chosen);
      if (decision.matched_tokens == 0) matches.push_back({decision.slot, 90});
    }
    std::uint64_t longest = 0;
    for (const WorkerView& worker : fleet.workers()) longest = std::max(longest, worker.queued_prefill_tokens);
    return longest;
  };
  EXPECT_LE(longest_queue("cache-aware"), longest_queue("least-requests"));
}

TEST(FindCandidatesTest, AreTheDeepestHoldersAndAFewOfTheLeastLoaded) {
  FleetView fleet;
  Matches matches;
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    // Workers in higher slots hold more; those in lower slots have less to do.
    fleet.Set(Queued(Idle(slot), 10 * slot));
    matches.insert(matches.begin(), Holds(slot, slot / 4 + 1));
  }
  const RouteQuery query{.prompt_token_count = kPromptTokens, .matches = matches};
  const std::vector<Candidate> candidates = FindCandidates(query, fleet);
  EXPECT_EQ(candidates.size(), kKeptHolders + kLeastLoadedCount);
  EXPECT_TRUE(std::is_sorted(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.cost_seconds() < b.cost_seconds();
  }));
  std::set<std::uint32_t> slots;
  for (const Candidate& candidate : candidates) slots.insert(candidate.slot.value());
  EXPECT_EQ(slots.size(), candidates.size());
  for (const std::uint32_t least_loaded : {0U, 1U, 2U, 3U}) EXPECT_TRUE(slots.contains(least_loaded));
  EXPECT_EQ(std::count_if(slots.begin(), slots.end(), [](std::uint32_t slot) { return slot >= 200 - kMaxHolders; }),
            kKeptHolders);
}

TEST(FindCandidatesTest, SlowIdleWorkersDoNotHideFastOnes) {
  FleetView fleet;
  for (std::uint32_t slot = 0; slot < 10; ++slot) {
    WorkerView slow = Idle(slot);
    slow.prefill_tokens_per_second = 100;
    fleet.Set(slow);
  }
  fleet.Set(Queued(Idle(10), 500));
  const RouteQuery query{.prompt_token_count = kPromptTokens};
  EXPECT_EQ(FindCandidates(query, fleet).front().slot.value(), 10U);
}

TEST(FindCandidatesTest, NeverHoldWhoMayNotTakeTheRequest) {
  Rng rng(5);
  for (int round = 0; round < 3000; ++round) {
    const Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    const std::vector<Candidate> candidates = FindCandidates(situation.query(), situation.fleet);
    ASSERT_EQ(candidates.empty(), eligible.empty());
    for (const Candidate& candidate : candidates) {
      ASSERT_TRUE(std::any_of(eligible.begin(), eligible.end(),
                              [&](const WorkerView& worker) { return worker.slot == candidate.slot; }));
      ASSERT_EQ(candidate.matched_tokens, situation.CachedOn(candidate.slot));
    }
  }
}

// If all workers are candidates, the policy is an argmin, except for ties.
TEST(CacheAwarePolicyTest, TakesTheLeastCostOfAll) {
  Rng rng(6);
  const auto policy = Make("cache-aware");
  for (int round = 0; round < 3000; ++round) {
    const Situation situation = RandomSituation(rng);
    if (situation.fleet.size() > kLeastLoadedCount) continue;
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    if (!decision.has_value()) continue;
    double least = 1e300;
    double chosen = 0;
    for (const WorkerView& worker : situation.Eligible()) {
      const PromptOnWorker prompt{.prompt_token_count = situation.prompt_token_count,
                                  .matched_block_count = situation.BlocksOn(worker.slot),
                                  .answer = kUsualAnswer};
      const double cost = PredictCost(prompt, worker, situation.fleet.speed()).cost_seconds();
      least = std::min(least, cost);
      if (worker.slot == decision->slot) chosen = cost;
    }
    ASSERT_LE(chosen, least + std::max(0.05 * least, 0.02) + 1e-12) << "round " << round;
  }
}

}  // namespace
}  // namespace roost::router

// Each baseline against its rule, written in the plainest way, in thousands of random situations.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

constexpr int kRounds = 3000;

using Score = std::function<double(const Situation&, const WorkerView&)>;

const WorkerView* ChosenOf(const std::vector<WorkerView>& workers, WorkerSlot slot) {
  const auto found =
      std::find_if(workers.begin(), workers.end(), [slot](const WorkerView& worker) { return worker.slot == slot; });
  return found == workers.end() ? nullptr : &*found;
}

// The chosen worker has the least score; if several have it, each of them is chosen at times.
void ExpectLeast(std::string_view name, const Score& score) {
  Rng rng(7);
  const auto policy = Make(name);
  for (int round = 0; round < kRounds; ++round) {
    const Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    ASSERT_EQ(decision.has_value(), !eligible.empty()) << name << ", round " << round;
    if (!decision.has_value()) continue;
    const WorkerView* const chosen = ChosenOf(eligible, decision->slot);
    ASSERT_NE(chosen, nullptr) << name << ", round " << round;
    for (const WorkerView& worker : eligible) {
      ASSERT_LE(score(situation, *chosen), score(situation, worker)) << name << ", round " << round;
    }
  }
}

std::map<std::uint32_t, int> Spread(std::string_view name, const FleetView& fleet, int rounds) {
  const auto policy = Make(name);
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < rounds; ++i) ++counts[policy->Choose({.prompt_token_count = 100}, fleet)->slot.value()];
  return counts;
}

// ---- argmin rules ----

TEST(LeastRequestsTest, TakesTheFewestInFlight) {
  ExpectLeast("least-requests", [](const Situation&, const WorkerView& worker) {
    return static_cast<double>(worker.in_flight_requests);
  });
}

TEST(LeastTokensTest, TakesTheFewestQueuedTokens) {
  ExpectLeast("least-tokens", [](const Situation&, const WorkerView& worker) {
    return static_cast<double>(worker.queued_prefill_tokens);
  });
}

TEST(LmetricTest, TakesTheLeastProductOfUncachedTokensAndBatch) {
  ExpectLeast("lmetric", [](const Situation& situation, const WorkerView& worker) {
    const double uncached = situation.prompt_token_count - situation.CachedOn(worker.slot);
    return uncached * (worker.running_requests + worker.waiting_requests + 1);
  });
}

TEST(DynamoTest, TakesTheFewestBlocksToPrefillAndDecode) {
  for (const auto& [name, credit] : {std::pair("dynamo", 1.0), std::pair("dynamo-credit", 1.5)}) {
    ExpectLeast(name, [credit = credit](const Situation& situation, const WorkerView& worker) {
      const double prefill = static_cast<double>(worker.queued_prefill_tokens + situation.prompt_token_count) / 16;
      const double decode = static_cast<double>(worker.running_context_tokens) / 16;
      return prefill - credit * situation.BlocksOn(worker.slot) + decode;
    });
  }
}

TEST(BaselinesTest, EqualsShareRandomly) {
  const FleetView fleet = FleetOf({Idle(3), Idle(5), Idle(9)});
  for (const char* name :
       {"random", "least-requests", "least-tokens", "power-of-two", "dynamo", "dynamo-credit", "llm-d", "lmetric"}) {
    const auto counts = Spread(name, fleet, 3000);
    ASSERT_EQ(counts.size(), 3U) << name;
    for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 1000, 150) << name << ", slot " << slot;
    EXPECT_EQ(counts, Spread(name, fleet, 3000)) << name;  // the same seed, the same choices
  }
}

// ---- turns and draws ----

TEST(RoundRobinTest, TakesTurnsWhileWorkersComeAndGo) {
  const auto policy = Make("round-robin");
  const RouteQuery query{.prompt_token_count = 10};
  const auto next = [&](const FleetView& fleet) { return policy->Choose(query, fleet)->slot.value(); };
  EXPECT_EQ(next(FleetOf({Idle(5), Idle(1), Idle(3)})), 1U);
  EXPECT_EQ(next(FleetOf({Idle(5), Idle(1), Idle(3)})), 3U);
  EXPECT_EQ(next(FleetOf({Idle(1), Idle(4), Idle(5)})), 4U);
  EXPECT_EQ(next(FleetOf({Idle(1), Idle(3), Idle(5)})), 5U);
  EXPECT_EQ(next(FleetOf({Idle(1), Idle(3), Idle(5)})), 1U);
  EXPECT_EQ(policy->Choose(query, FleetOf({Idle(1), Idle(3)}))->reason, DecisionReason::kRotation);
}

TEST(RoundRobinTest, PassesOverWhoMayNotTakeIt) {
  const auto policy = Make("round-robin");
  std::vector<WorkerView> workers{Idle(0), Idle(1), Idle(2)};
  workers[0].waiting_requests = workers[1].waiting_requests = 5;
  const FleetView fleet = FleetOf(workers);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(policy->Choose({.prompt_token_count = 10, .waiting_bound = 5}, fleet)->slot.value(), 2U);
  }
}

TEST(RoundRobinTest, GoesRoundInEachFleetApart) {
  const auto policy = Make("round-robin");
  FleetView one(1);
  FleetView other(2);
  for (std::uint32_t slot : {0U, 2U}) one.Set(Idle(slot));
  for (std::uint32_t slot : {1U, 3U}) other.Set(Idle(slot));
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 4; ++i) {
    slots.push_back(policy->Choose({.prompt_token_count = 10}, one)->slot.value());
    slots.push_back(policy->Choose({.prompt_token_count = 10}, other)->slot.value());
  }
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(PowerOfTwoTest, NeverTakesTheFullestOfThreeAndMostOftenTheEmptiest) {
  std::vector<WorkerView> workers{Idle(0), Idle(1), Idle(2)};
  workers[1].in_flight_requests = 1;
  workers[2].in_flight_requests = 2;
  const auto counts = Spread("power-of-two", FleetOf(workers), 3000);
  EXPECT_EQ(counts.size(), 2U);          // in any pair, slot 2 is the fuller one
  EXPECT_NEAR(counts.at(0), 2000, 150);  // it is in two of three pairs
}

// ---- hashes ----

class HashTest : public ::testing::Test {
 protected:
  static std::uint32_t Home(Policy& policy, const FleetView& fleet, std::uint64_t chain) {
    const std::vector<BlockHash> hashes = Chain(chain, 8);
    return policy.Choose({.prompt_token_count = 129, .block_hashes = hashes}, fleet)->slot.value();
  }
  static FleetView Fleet(const std::set<std::uint32_t>& slots) {
    FleetView fleet;
    for (const std::uint32_t slot : slots) fleet.Set(Idle(slot));
    return fleet;
  }
};

TEST_F(HashTest, OnlyTheKeysOfAWorkerThatLeavesMove) {
  for (const char* name : {"consistent-hash", "session"}) {
    const auto policy = Make(name);
    const FleetView all = Fleet({0, 1, 2, 3, 4});
    const FleetView fewer = Fleet({0, 1, 3, 4});
    std::map<std::uint32_t, int> counts;
    for (std::uint64_t key = 0; key < 2000; ++key) {
      const std::uint32_t home = Home(*policy, all, key);
      ++counts[home];
      const std::uint32_t later = Home(*policy, fewer, key);
      ASSERT_EQ(home == 2 || home == later, true) << name << ", key " << key;
      ASSERT_NE(later, 2U);
    }
    for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 400, 120) << name << ", slot " << slot;
  }
}

TEST_F(HashTest, PromptsThatBeginAlikeGoTogether) {
  const FleetView fleet = Fleet({0, 1, 2, 3, 4, 5, 6, 7});
  for (const char* name : {"consistent-hash", "session"}) {
    const auto policy = Make(name);
    std::vector<BlockHash> hashes = Chain(1, 4);
    const auto home = policy->Choose({.prompt_token_count = 65, .block_hashes = hashes}, fleet)->slot;
    for (std::uint64_t end = 10; end < 60; ++end) {
      std::vector<BlockHash> longer = hashes;
      for (const BlockHash& hash : Chain(end, 9)) longer.push_back(hash);
      ASSERT_EQ(policy->Choose({.prompt_token_count = 300, .block_hashes = longer}, fleet)->slot, home) << name;
    }
  }
}

TEST_F(HashTest, LoadIsBoundedByAQuarterOverTheMean) {
  Rng rng(8);
  const auto loaded = Make("consistent-hash");
  const auto idle = Make("consistent-hash");
  int moved = 0;
  for (int round = 0; round < kRounds; ++round) {
    Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    const std::optional<Decision> decision = loaded->Choose(situation.query(), situation.fleet);
    if (!decision.has_value() || situation.block_hashes.empty()) continue;
    FleetView unloaded;
    double total = 0;
    for (WorkerView worker : eligible) {
      total += worker.in_flight_requests;
      worker.in_flight_requests = 0;
      unloaded.Set(worker);
    }
    const auto within = [&](const WorkerView& worker) {
      return total == 0 || worker.in_flight_requests + 1 <= 1.25 * (total + 1) / static_cast<double>(eligible.size());
    };
    const WorkerSlot home = idle->Choose(situation.query(), unloaded)->slot;
    const bool home_has_room = within(*ChosenOf(eligible, home));
    const bool any_has_room = std::any_of(eligible.begin(), eligible.end(), within);
    ASSERT_EQ(decision->slot == home, home_has_room || !any_has_room) << "round " << round;
    ASSERT_TRUE(!any_has_room || within(*ChosenOf(eligible, decision->slot))) << "round " << round;
    if (decision->slot == home) continue;
    ++moved;
    EXPECT_EQ(decision->reason, DecisionReason::kOverBound);
  }
  EXPECT_GT(moved, kRounds / 10);
}

TEST_F(HashTest, SessionsStayWhateverTheirPromptsAndLoads) {
  Rng rng(9);
  const auto policy = Make("session");
  for (std::uint64_t session = 1; session < 200; ++session) {
    FleetView fleet;
    for (std::uint32_t slot = 0; slot < 8; ++slot) fleet.Set(RandomWorker(WorkerSlot(slot), rng));
    const std::vector<BlockHash> hashes = Chain(session, 5);
    const Decision first = policy->Choose({.prompt_token_count = 90, .session_hash = session}, fleet).value();
    EXPECT_EQ(first.reason, DecisionReason::kSession);
    for (std::uint32_t slot = 0; slot < 8; ++slot) fleet.Set(RandomWorker(WorkerSlot(slot), rng));
    const RouteQuery later{.prompt_token_count = 90, .block_hashes = hashes, .session_hash = session};
    ASSERT_EQ(policy->Choose(later, fleet)->slot, first.slot);
  }
}

TEST_F(HashTest, RequestsOfOneCacheKeyMeetAndSessionsComeFirst) {
  Rng rng(11);
  const auto policy = Make("session");
  for (std::uint64_t key = 1; key < 100; ++key) {
    FleetView fleet;
    for (std::uint32_t slot = 0; slot < 8; ++slot) fleet.Set(RandomWorker(WorkerSlot(slot), rng));
    const std::vector<BlockHash> one = Chain(2 * key, 5);
    const std::vector<BlockHash> other = Chain(2 * key + 1, 5);
    const RouteQuery first{.prompt_token_count = 90, .block_hashes = one, .cache_key_hash = key};
    const RouteQuery second{.prompt_token_count = 90, .block_hashes = other, .cache_key_hash = key};
    ASSERT_EQ(policy->Choose(first, fleet)->slot, policy->Choose(second, fleet)->slot);
    const RouteQuery named{.prompt_token_count = 90, .session_hash = 7, .cache_key_hash = key};
    ASSERT_EQ(policy->Choose(named, fleet)->reason, DecisionReason::kSession);
  }
}

TEST_F(HashTest, PromptsWithoutAFullBlockGoToTheFewestRequests) {
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  workers[0].in_flight_requests = 1;
  for (const char* name : {"consistent-hash", "session"}) {
    EXPECT_EQ(Spread(name, FleetOf(workers), 20), (std::map<std::uint32_t, int>{{1, 20}})) << name;
  }
}

// ---- sglang ----

// Every prompt that was sent, block by block, with the worker that got it last.
class NaiveTree {
 public:
  void Add(const std::vector<BlockHash>& chain, WorkerSlot slot) {
    for (const BlockHash& hash : chain) last_[hash] = slot;
  }
  [[nodiscard]] std::pair<std::size_t, std::optional<WorkerSlot>> Find(const std::vector<BlockHash>& chain) const {
    std::optional<WorkerSlot> slot;
    std::size_t depth = 0;
    while (depth < chain.size() && last_.contains(chain[depth])) slot = last_.at(chain[depth++]);
    return {depth, slot};
  }

 private:
  std::map<BlockHash, WorkerSlot> last_;
};

TEST(SglangTest, FollowsItsOwnHistoryUnlessLoadsAreOutOfBalance) {
  Rng rng(10);
  const auto policy = Make("sglang");
  NaiveTree tree;
  std::map<std::string_view, int> reasons;
  for (int round = 0; round < kRounds; ++round) {
    Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    if (rng.Below(2) == 0) {  // balanced
      for (WorkerView worker : eligible) {
        worker.in_flight_requests %= 20;
        situation.fleet.Set(worker);
      }
    }
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    if (!decision.has_value()) continue;
    std::uint32_t low = 1000;
    std::uint32_t high = 0;
    for (const WorkerView& worker : situation.Eligible()) {
      low = std::min(low, worker.in_flight_requests);
      high = std::max(high, worker.in_flight_requests);
    }
    const auto [depth, last] = tree.Find(situation.block_hashes);
    const bool balanced = high - low <= 32 || high <= 1.1 * low;
    const bool known = last.has_value() && ChosenOf(eligible, *last) != nullptr;
    if (balanced && known && 32 * depth > situation.prompt_token_count) {
      ASSERT_EQ(decision->slot, *last) << "round " << round;
    } else {
      ASSERT_EQ(ChosenOf(situation.Eligible(), decision->slot)->in_flight_requests, low) << "round " << round;
    }
    ++reasons[NameOf(decision->reason)];
    tree.Add(situation.block_hashes, decision->slot);
  }
  for (const char* reason : {"history", "imbalance", "least_load", "only_worker"})
    EXPECT_GT(reasons[reason], 20) << reason;
}

TEST(SglangTest, ForgetsWhatAWorkersEarlierLifeWasSent) {
  const auto policy = Make("sglang");
  std::vector<WorkerView> workers{Idle(0), Idle(1)};
  workers[1].in_flight_requests = 1;
  const std::vector<BlockHash> hashes = Chain(1, 10);
  const RouteQuery query{.prompt_token_count = 165, .block_hashes = hashes};
  EXPECT_EQ(policy->Choose(query, FleetOf(workers))->slot.value(), 0U);
  workers[0].in_flight_requests = 5;
  EXPECT_EQ(policy->Choose(query, FleetOf(workers))->reason, DecisionReason::kHistory);
  workers[0].epoch = 2;
  const std::vector<BlockHash> other = Chain(2, 10);
  workers[1].in_flight_requests = 9;
  EXPECT_EQ(policy->Choose({.prompt_token_count = 165, .block_hashes = other}, FleetOf(workers))->slot.value(), 0U);
  workers[1].in_flight_requests = 0;
  EXPECT_EQ(policy->Choose(query, FleetOf(workers))->slot.value(), 1U);
}

// ---- llm-d ----

TEST(LlmDTest, StaysWithTheHoldersUntilTheyAreSaturated) {
  Rng rng(11);
  const auto policy = Make("llm-d");
  std::map<std::string_view, int> reasons;
  for (int round = 0; round < kRounds; ++round) {
    const Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    if (!decision.has_value()) continue;
    const auto is_sticky = [&](const WorkerView& worker) {
      return situation.CachedOn(worker.slot) >= 0.8 * situation.prompt_token_count;
    };
    double best_sticky = 1e300;
    double best_other = 1e300;
    for (const WorkerView& worker : eligible) {
      double& best = is_sticky(worker) ? best_sticky : best_other;
      best = std::min(best, static_cast<double>(worker.queued_prefill_tokens));
    }
    const double known = situation.fleet.speed().prefill_tokens_per_second;
    const double rate = known > 0 ? known : 15928;
    const bool none = best_sticky == 1e300;
    const bool saturated = !none && best_other < 1e300 && (best_sticky - best_other) / rate > 18;
    double least = 1e300;
    for (const WorkerView& worker : eligible) {
      if (!none && !saturated && !is_sticky(worker)) continue;
      least = std::min(least, static_cast<double>(worker.queued_prefill_tokens) + situation.prompt_token_count -
                                  situation.CachedOn(worker.slot));
    }
    const WorkerView& chosen = *ChosenOf(eligible, decision->slot);
    ASSERT_EQ(static_cast<double>(chosen.queued_prefill_tokens) + situation.prompt_token_count -
                  situation.CachedOn(chosen.slot),
              least)
        << "round " << round;
    ASSERT_TRUE(none || saturated || is_sticky(chosen)) << "round " << round;
    ++reasons[NameOf(decision->reason)];
  }
  for (const char* reason : {"sticky", "unsticky", "least_load"}) EXPECT_GT(reasons[reason], 5) << reason;
}

}  // namespace
}  // namespace roost::router

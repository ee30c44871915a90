#include "router/route/policy.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace roost::router {
namespace {

constexpr std::uint32_t kPromptTokens = 1600;

WorkerView Idle(std::uint32_t slot) {
  WorkerView worker;
  worker.slot = WorkerSlot(slot);
  worker.max_running_requests = 32;
  worker.free_block_count = 100000;
  worker.prefill_tokens_per_second = 2000;
  worker.decode_step_seconds = 0.02;
  return worker;
}

WorkerView Holder(std::uint32_t slot, std::uint32_t matched_blocks) {
  WorkerView worker = Idle(slot);
  worker.matched_block_count = matched_blocks;
  return worker;
}

std::unique_ptr<Policy> Make(std::string_view name, std::uint64_t seed = 1) {
  return std::move(MakePolicy(name, seed)).value();
}

Decision ChooseCacheAware(const std::vector<WorkerView>& workers, std::uint32_t prompt_tokens = kPromptTokens) {
  return Make("cache-aware")->Choose({.prompt_token_count = prompt_tokens}, workers);
}

// How often each slot is chosen for the same situation.
std::map<std::uint32_t, int> Spread(std::string_view policy_name, const std::vector<WorkerView>& workers, int rounds) {
  const auto policy = Make(policy_name);
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < rounds; ++i)
    ++counts[policy->Choose({.prompt_token_count = kPromptTokens}, workers).slot.value()];
  return counts;
}

TEST(CacheAwarePolicyTest, DecidesAsTheSituationAsks) {
  WorkerView saturated_holder = Holder(1, 99);
  saturated_holder.queued_prefill_tokens = 20000;
  saturated_holder.running_requests = 32;
  WorkerView busy_holder = Holder(1, 99);  // its queue is shorter than the prefill that it saves
  busy_holder.queued_prefill_tokens = 400;
  WorkerView full_holder = Holder(1, 99);
  full_holder.running_requests = 32;
  full_holder.waiting_requests = 30;
  WorkerView slow = Idle(1);
  slow.prefill_tokens_per_second = 200;
  WorkerView slow_holder = Holder(1, 20);  // 1280 tokens at a tenth of the speed
  slow_holder.prefill_tokens_per_second = 200;
  WorkerView busy = Idle(1);
  busy.queued_prefill_tokens = 5000;

  struct Case {
    const char* situation;
    std::vector<WorkerView> workers;
    std::uint32_t expected_slot;
    DecisionReason expected_reason;
  };
  const std::vector<Case> cases = {
      {"deepest match wins when all are idle",
       {Holder(0, 10), Holder(1, 90), Idle(2)},
       1,
       DecisionReason::kDeepestMatch},
      {"saturated holder loses to an idle empty worker", {Idle(0), saturated_holder}, 0, DecisionReason::kLeastLoad},
      {"busy holder still wins", {Idle(0), busy_holder}, 1, DecisionReason::kDeepestMatch},
      {"holder without a batch slot loses", {Idle(0), full_holder}, 0, DecisionReason::kLeastLoad},
      {"slow worker loses", {Idle(0), slow}, 0, DecisionReason::kLeastLoad},
      {"slow holder of little loses", {Idle(0), slow_holder}, 0, DecisionReason::kLeastLoad},
      {"busy worker loses among empty ones", {Idle(0), busy}, 0, DecisionReason::kLeastLoad},
      {"the only worker is taken, however loaded", {saturated_holder}, 1, DecisionReason::kOnlyWorker},
  };
  for (const Case& c : cases) {
    const Decision decision = ChooseCacheAware(c.workers);
    EXPECT_EQ(decision.slot.value(), c.expected_slot) << c.situation;
    EXPECT_EQ(NameOf(decision.reason), NameOf(c.expected_reason)) << c.situation;
  }
}

TEST(CacheAwarePolicyTest, DecisionExplainsItself) {
  const Decision decision = ChooseCacheAware({Idle(0), Holder(1, 90)});
  EXPECT_EQ(decision.matched_tokens, 90U * 16);
  EXPECT_DOUBLE_EQ(decision.predicted_ttft_seconds, (kPromptTokens - 90.0 * 16) / 2000);
  ASSERT_EQ(decision.candidates.size(), 2U);
  EXPECT_EQ(decision.candidates[0].slot.value(), 0U);
  EXPECT_DOUBLE_EQ(decision.candidates[0].prefill_seconds, 0.8);
}

TEST(CacheAwarePolicyTest, TiesSpreadOverEqualWorkers) {
  const auto counts = Spread("cache-aware", {Idle(0), Idle(1), Idle(2), Idle(3)}, 4000);
  ASSERT_EQ(counts.size(), 4U);
  for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 1000, 150) << slot;
  EXPECT_EQ(ChooseCacheAware({Idle(0), Idle(1)}).reason, DecisionReason::kNearTie);
}

TEST(CacheAwarePolicyTest, NearTiePrefersDeeperMatchThenLowerLoad) {
  WorkerView deeper = Holder(0, 50);
  deeper.queued_prefill_tokens = 820;  // 820 + 800 uncached against 1584: 2 % dearer
  EXPECT_EQ(ChooseCacheAware({Holder(1, 1), deeper}).slot.value(), 0U);
  WorkerView working = Idle(1);
  working.queued_prefill_tokens = 10;
  EXPECT_EQ(ChooseCacheAware({working, Idle(2)}).slot.value(), 2U);
}

TEST(CacheAwarePolicyTest, GrowingQueueMovesTheChoiceOnceAndAtTheBreakEvenPoint) {
  int changes = 0;
  std::uint32_t previous = 1;
  std::uint64_t moved_at = 0;
  for (std::uint64_t queued = 0; queued <= 4000; queued += 20) {
    WorkerView holder = Holder(1, 80);
    holder.queued_prefill_tokens = queued;
    const std::uint32_t slot = ChooseCacheAware({Idle(0), holder}).slot.value();
    if (slot != previous) {
      ++changes;
      moved_at = queued;
    }
    previous = slot;
  }
  EXPECT_EQ(changes, 1);
  EXPECT_NEAR(static_cast<double>(moved_at), 80 * 16, 0.1 * kPromptTokens);
}

// Requests that share one prefix arrive faster than any worker can serve; what was chosen is charged.
TEST(CacheAwarePolicyTest, OneHotPrefixDoesNotPinEverything) {
  const auto policy = Make("cache-aware");
  std::vector<WorkerView> workers{Holder(0, 90), Idle(1), Idle(2), Idle(3)};
  for (int i = 0; i < 200; ++i) {
    const Decision decision = policy->Choose({.prompt_token_count = kPromptTokens}, workers);
    WorkerView& chosen = workers[decision.slot.value()];
    chosen.queued_prefill_tokens += kPromptTokens - decision.matched_tokens;
    ++chosen.waiting_requests;
    chosen.matched_block_count = 90;
  }
  for (const WorkerView& worker : workers) EXPECT_GT(worker.waiting_requests, 20U) << worker.slot.value();
}

TEST(CacheAwarePolicyTest, WithoutRatesAffinityYieldsToTheBatch) {
  WorkerView holder = Holder(0, 50);  // half the prompt
  holder.prefill_tokens_per_second = 0;
  WorkerView empty = Idle(1);
  empty.prefill_tokens_per_second = 0;
  EXPECT_EQ(ChooseCacheAware({holder, empty}).slot.value(), 0U);
  holder.running_requests = 3;
  EXPECT_EQ(ChooseCacheAware({holder, empty}).slot.value(), 1U);
}

TEST(LeastLoadedPolicyTest, TakesTheFewestRequestsThenTheFewestTokens) {
  WorkerView few = Idle(0);
  few.running_requests = 1;
  few.queued_prefill_tokens = 50;
  WorkerView many = Holder(1, 99);
  many.running_requests = 1;
  many.waiting_requests = 1;
  WorkerView few_tokens = few;
  few_tokens.slot = WorkerSlot(2);
  few_tokens.queued_prefill_tokens = 40;
  EXPECT_EQ(Spread("least-loaded", {few, many, few_tokens}, 20), (std::map<std::uint32_t, int>{{2, 20}}));
}

TEST(RoundRobinPolicyTest, TakesTurnsWhileWorkersComeAndGo) {
  const auto policy = Make("round-robin");
  const RouteQuery query{.prompt_token_count = 10};
  const auto next = [&](const std::vector<WorkerView>& workers) { return policy->Choose(query, workers).slot.value(); };
  EXPECT_EQ(next({Idle(5), Idle(1), Idle(3)}), 1U);
  EXPECT_EQ(next({Idle(5), Idle(1), Idle(3)}), 3U);
  EXPECT_EQ(next({Idle(1), Idle(4), Idle(5)}), 4U);
  EXPECT_EQ(next({Idle(1), Idle(3), Idle(5)}), 5U);
  EXPECT_EQ(next({Idle(1), Idle(3), Idle(5)}), 1U);
  EXPECT_EQ(policy->Choose(query, std::vector{Idle(1), Idle(3)}).reason, DecisionReason::kRotation);
}

TEST(RandomPolicyTest, IsUniformAndReproducible) {
  const std::vector<WorkerView> workers{Idle(0), Holder(1, 99), Idle(2)};
  const auto counts = Spread("random", workers, 3000);
  for (const auto& [slot, count] : counts) EXPECT_NEAR(count, 1000, 150) << slot;
  EXPECT_EQ(counts, Spread("random", workers, 3000));
}

TEST(MakePolicyTest, NamesThePoliciesThatItKnows) {
  const auto result = MakePolicy("fastest", 1);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("cache-aware, round-robin, random, least-loaded"), std::string::npos);
}

TEST(PolicyTest, EveryPolicyChoosesACandidateInAnySituation) {
  Rng rng(11);
  for (const char* name : {"cache-aware", "round-robin", "random", "least-loaded"}) {
    const auto policy = Make(name);
    EXPECT_EQ(policy->name(), name);
    for (int round = 0; round < 2000; ++round) {
      std::vector<WorkerView> workers;
      std::set<std::uint32_t> slots;
      while (workers.empty() || rng.Below(4) != 0) {
        WorkerView worker = Idle(static_cast<std::uint32_t>(rng.Below(1024)));
        if (!slots.insert(worker.slot.value()).second) continue;
        worker.matched_block_count = static_cast<std::uint32_t>(rng.Below(200));
        worker.queued_prefill_tokens = rng.Below(100000);
        worker.running_requests = static_cast<std::uint32_t>(rng.Below(64));
        worker.free_block_count = static_cast<std::uint32_t>(rng.Below(100));
        worker.prefill_tokens_per_second = rng.Below(3) == 0 ? 0 : 1 + 10000 * rng.Uniform();
        worker.max_running_requests = static_cast<std::uint32_t>(rng.Below(40));
        workers.push_back(worker);
      }
      const Decision decision =
          policy->Choose({.prompt_token_count = static_cast<std::uint32_t>(rng.Below(3000))}, workers);
      ASSERT_TRUE(slots.contains(decision.slot.value())) << name;
      ASSERT_EQ(decision.reason == DecisionReason::kOnlyWorker, workers.size() == 1) << name;
      ASSERT_GE(decision.predicted_ttft_seconds, 0) << name;
    }
  }
}

}  // namespace
}  // namespace roost::router

#include "router/route/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

using testing::HasSubstr;

TEST(MakePolicyTest, KnowsTheNamesThatItTells) {
  EXPECT_THAT(PolicyNames(), testing::ElementsAre("cache-aware", "round-robin", "random", "least-requests",
                                                  "least-tokens", "power-of-two", "consistent-hash", "session",
                                                  "sglang", "dynamo", "dynamo-credit", "llm-d", "lmetric"));
  for (const std::string_view name : PolicyNames()) EXPECT_EQ(Make(name)->name(), name);
  const auto unknown = MakePolicy("fastest", 1);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  for (const std::string_view name : PolicyNames()) EXPECT_THAT(unknown.error().message, HasSubstr(std::string(name)));
}

class AnyPolicyTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(AnyPolicyTest, ChoosesAWorkerThatMayTakeItInAnySituation) {
  Rng rng(12);
  const auto policy = Make(GetParam());
  int without = 0;
  for (int round = 0; round < 3000; ++round) {
    const Situation situation = RandomSituation(rng);
    const std::vector<WorkerView> eligible = situation.Eligible();
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    ASSERT_EQ(decision.has_value(), !eligible.empty()) << "round " << round;
    if (!decision.has_value()) {
      ++without;
      continue;
    }
    ASSERT_TRUE(std::any_of(eligible.begin(), eligible.end(),
                            [&](const WorkerView& worker) { return worker.slot == decision->slot; }));
    ASSERT_EQ(decision->reason == DecisionReason::kOnlyWorker, eligible.size() == 1);
    ASSERT_EQ(decision->matched_tokens, situation.CachedOn(decision->slot));
    ASSERT_GE(decision->predicted_ttft_seconds, 0);
  }
  EXPECT_GT(without, 0);
}

TEST_P(AnyPolicyTest, TellsTheChosenOneAmongItsCandidates) {
  Rng rng(13);
  const auto policy = Make(GetParam());
  for (int round = 0; round < 1000; ++round) {
    const Situation situation = RandomSituation(rng);
    const std::optional<Decision> decision = policy->Choose(situation.query(), situation.fleet);
    if (!decision.has_value()) continue;
    const auto& candidates = decision->candidates;
    const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const Candidate& candidate) { return candidate.slot == decision->slot; });
    ASSERT_NE(chosen, candidates.end());
    ASSERT_EQ(chosen->ttft_seconds(), decision->predicted_ttft_seconds);
    ASSERT_TRUE(std::is_sorted(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost_seconds() < b.cost_seconds();
    }));
  }
}

TEST_P(AnyPolicyTest, HasNoAnswerForAnEmptyFleet) {
  EXPECT_FALSE(Make(GetParam())->Choose({.prompt_token_count = 10}, FleetView()).has_value());
}

INSTANTIATE_TEST_SUITE_P(All, AnyPolicyTest, testing::ValuesIn(PolicyNames().begin(), PolicyNames().end()),
                         [](const auto& policy) {
                           std::string name(policy.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace roost::router

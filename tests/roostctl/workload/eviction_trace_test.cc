// The default policy on every trace and pool size of the comparison: never clearly worse than LRU, in hits while all
// blocks cost the same and in time saved where they do not, and much better on the traffic that it was made for.
#include <gtest/gtest.h>

#include "deploy/roostctl/workload/replay.h"
#include "tests/support/eviction_cells.h"
#include "tests/support/night.h"
#include "tests/support/shared_data.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::workload {
namespace {

using testing_support::EvictionCase;

constexpr double kAllowedLoss = 0.005;
constexpr double kConversationGain = 1.4;  // at 2M tokens

ReplayResult Play(const EvictionCase& eviction_case, std::uint32_t kilotokens, std::string_view policy,
                  worker::RecomputeCost cost = {}) {
  const std::uint32_t block_count = eviction_case.BlockCount(kilotokens);
  return Replay(eviction_case.trace, block_count, worker::MakeEvictionPolicy(policy, block_count).value(), {}, cost);
}

void ExpectNoLoss(const std::vector<EvictionCase>& cases) {
  for (const EvictionCase& eviction_case : cases) {
    std::vector<std::uint32_t> pools = eviction_case.pool_kilotokens;
    if (!testing_support::IsNight()) pools.resize(1);  // the smallest, which evicts most
    for (const std::uint32_t kilotokens : pools) {
      SCOPED_TRACE(testing::Message() << eviction_case.name << " with " << kilotokens << "k tokens");
      const worker::RecomputeCost cost = eviction_case.Cost();
      const ReplayResult lru = Play(eviction_case, kilotokens, "lru", cost);
      EXPECT_GE(Play(eviction_case, kilotokens, worker::kDefaultEvictionPolicy).hit_ratio(),
                lru.hit_ratio() - kAllowedLoss);
      EXPECT_GE(Play(eviction_case, kilotokens, worker::kDefaultEvictionPolicy, cost).saved_ratio(),
                lru.saved_ratio() - kAllowedLoss);
    }
  }
}

TEST(EvictionTraceTest, TheDefaultIsNeverClearlyWorseThanLruOnMadeLoad) {
  ExpectNoLoss(testing_support::GeneratedEvictionCases());
}

TEST(EvictionTraceTest, TheDefaultIsNeverClearlyWorseThanLruOnRecordedTraces) {
  const auto folder = testing_support::SharedDir() / "traces";
  ROOST_SKIP_WITHOUT(folder);
  const auto cases = testing_support::RecordedEvictionCases(folder);
  ASSERT_TRUE(cases.ok()) << cases.error().ToString();
  ExpectNoLoss(*cases);
}

TEST(EvictionTraceTest, TheDefaultHitsMuchMoreThanLruOnTheConversationTrace) {
  const auto path = testing_support::SharedDir() / "traces/mooncake_conv_first20min.jsonl";
  ROOST_SKIP_WITHOUT(path);
  auto trace = LoadMooncakeTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  const EvictionCase conversation{"conversation", std::move(trace).value(), {}};
  EXPECT_GE(Play(conversation, 2000, worker::kDefaultEvictionPolicy).hit_ratio(),
            kConversationGain * Play(conversation, 2000, "lru").hit_ratio());
}

}  // namespace
}  // namespace roost::workload

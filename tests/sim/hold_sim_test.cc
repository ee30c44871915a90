// Holds over lines that lose, delay, double, reorder, tear and alter what travels between workers, while sources and
// consumers die and blocks are evicted: every answer is the same, every router's view is exact, and nothing is left.
#include <gtest/gtest.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "common/base/log.h"
#include "tests/sim/cluster_sim.h"

namespace roost::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kShardCount = 4;
constexpr std::uint64_t kSeedsForAll = 100;  // in so many, Holds end in every way

// The build's number, or ROOST_HOLD_SEEDS: 10000 for all.
std::uint64_t SeedCount() {
  std::uint64_t count = ROOST_SIM_SEED_COUNT;
  if (const char* const text = std::getenv("ROOST_HOLD_SEEDS")) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
  }
  return count;
}

class HoldSimTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() { SetUpLogging(LogLevel::kError, LogFormat::kText); }
};

TEST_P(HoldSimTest, ViewsAreExactAndNothingIsLeftOver) {
  const std::uint64_t seeds_per_shard = SeedCount() / kShardCount;
  SimWorker::HoldEnds ends{};
  for (std::uint64_t seed = GetParam() * seeds_per_shard; seed < (GetParam() + 1) * seeds_per_shard; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ClusterSim sim(seed, Blocks::kTravel);
    sim.RunWithFaults(150);
    sim.Recover(4s);  // see cluster_sim_test.cc
    sim.Drain();
    sim.Pass(280ms);
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += sim.HoldEnds()[i];
    sim.CheckViews();
    if (!HasFailure()) sim.CheckNothingIsLeft();
    if (HasFailure()) return;
  }
  if (seeds_per_shard < kSeedsForAll) return;
  for (const auto outcome :
       {wire::HoldOutcome::kComplete, wire::HoldOutcome::kMissing, wire::HoldOutcome::kSlow, wire::HoldOutcome::kBroken,
        wire::HoldOutcome::kWrong, wire::HoldOutcome::kNoRoom, wire::HoldOutcome::kCancelled}) {
    const auto index = static_cast<std::size_t>(outcome);
    EXPECT_GT(ends[index], 0U) << "no Hold has ended as " << wire::kHoldOutcomeNames[index];
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, HoldSimTest, ::testing::Range(std::uint64_t{0}, kShardCount));

}  // namespace
}  // namespace roost::sim

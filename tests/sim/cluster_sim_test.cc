// The faults of network and machines leave no trace: when they end, every router's index equals what its workers hold.
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/sim/cluster_sim.h"

namespace roost::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kShardCount = 10;
// The build sets the number: sanitizers take twenty times as long.
constexpr std::uint64_t kSeedsPerShard = ROOST_SIM_SEED_COUNT / kShardCount;

// A hello is sent each second until it is welcomed. A missing snapshot is asked for again after one second. A ping each
// second reveals lost requests. Silence is noticed after two seconds (router) or three (worker). So every loss is found
// within these four seconds.
constexpr Duration kRecovery = 4s;
constexpr Duration kLoadInterval = 250ms;
constexpr Duration kLongestDelay = 30ms;  // of a line without faults and a round together

class ClusterSimTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() { SetUpLogging(LogLevel::kError, LogFormat::kText); }
};

TEST_P(ClusterSimTest, IndexEqualsTheWorkersTruthOneLoadIntervalAfterRecovery) {
  for (std::uint64_t seed = GetParam() * kSeedsPerShard; seed < (GetParam() + 1) * kSeedsPerShard; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ClusterSim sim(seed);
    sim.RunWithFaults(150);
    sim.Recover(kRecovery);
    sim.Drain();
    sim.Pass(kLoadInterval + kLongestDelay);
    sim.CheckViews();
    sim.CheckNothingIsLeft();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ClusterSimTest, ::testing::Range(std::uint64_t{0}, kShardCount));

}  // namespace
}  // namespace roost::sim

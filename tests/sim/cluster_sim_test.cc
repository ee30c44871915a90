// Whatever the network and the machines do, when they are quiet again every router's index equals what its workers
// hold.
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "tests/sim/cluster_sim.h"

namespace roost::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kShardCount = 10;
// Set by the build: sanitizers take twenty times as long.
constexpr std::uint64_t kSeedsPerShard = ROOST_SIM_SEED_COUNT / kShardCount;

// Hellos come each second until they are welcomed, a snapshot that does not come is asked for again after one, a ping
// each second tells of lost requests, silence is noticed after two (router) or three (worker): whatever was lost is
// found out within these four seconds.
constexpr Duration kRecovery = 4s;
constexpr Duration kLoadInterval = 250ms;
constexpr Duration kLongestDelay = 30ms;  // of a line without faults and of a round

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

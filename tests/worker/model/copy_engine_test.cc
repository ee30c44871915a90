// The copies of blocks on late devices (late_ops.h): pools, frames and steps as in toy_pool.h.
//
// ROOST_COPY_SEEDS=10000 for many more.
#include "worker/model/copy_engine.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/late_ops.h"
#include "tests/worker/model/toy_pool.h"

namespace roost::worker {
namespace {

using testing_support::LateFault;
using testing_support::LateOps;
using testing_support::LateStreams;

ToyTotals RunSeeds(ToyOptions options, std::uint64_t seed_count, LateFault fault = LateFault::kNone) {
  options.ops = &LateOps<kernels::ReferenceOps>();
  ToyTotals totals;
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    LateStreams::All().Reset(seed, fault);
    ToyPool pool(options, seed);
    pool.Run(60);
    totals.Add(pool);
  }
  return totals;
}

std::uint64_t SeedCount() {
  const char* const text = std::getenv("ROOST_COPY_SEEDS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

TEST(CopyEngineTest, BytesAreRightHoweverLateAndInWhicheverOrderCopiesEnd) {
  for (const ToyOptions& options :
       {ToyOptions{.rank_count = 1}, ToyOptions{.rank_count = 2}, ToyOptions{.rank_count = 4},
        ToyOptions{.rank_count = 4, .heads = 2}, ToyOptions{.rank_count = 2, .heads = 1}}) {
    const ToyTotals totals = RunSeeds(options, SeedCount());
    EXPECT_EQ(totals.wrong, 0) << options.rank_count << " ranks, " << options.heads << " heads";
    EXPECT_GT(totals.read, 0);
    EXPECT_GT(totals.written, 0);
  }
}

TEST(CopyEngineTest, ItShowsWhenOnlyTheFirstRankIsAwaited) {
  EXPECT_GT(RunSeeds({.rank_count = 2}, 100, LateFault::kOnlyTheFirstRankIsAwaited).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenAStepDoesNotWaitForGathers) {
  EXPECT_GT(RunSeeds({}, 100, LateFault::kOpsDoNotWaitForGathers).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenAGatherDoesNotWaitForTheStep) {
  EXPECT_GT(RunSeeds({.haste = Haste::kPublishesAtBegin}, 100).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenAScatterComesBehindTheKernels) {
  EXPECT_GT(RunSeeds({}, 100, LateFault::kScattersComeLast).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenPinnedMemoryIsFreedBeforeItsCopyHasEnded) {
  EXPECT_GT(RunSeeds({}, 100, LateFault::kCopiesAreNotAwaited).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenStagingIsFreedBeforeItsScatterHasEnded) {
  EXPECT_GT(RunSeeds({.haste = Haste::kFreesAtBegin}, 100).wrong, 0);
}
TEST(CopyEngineTest, ItShowsWhenARankTakesItsNeighboursHeads) {
  EXPECT_GT(RunSeeds({.rank_count = 2}, 100, LateFault::kNeighboursHeadsAreTaken).wrong, 0);
}

}  // namespace
}  // namespace roost::worker

// Ranks on devices that compute as late as they may (late_ops.h): when a batch has finished, it has on every rank.
#include "tests/support/late_ops.h"
#include "tests/worker/model/rank_testing.h"

namespace roost::worker {
namespace {

using testing_support::LateFault;
using testing_support::LateOps;
using testing_support::LateStreams;

// The seeds of 20 whose prefill without logits leaves work behind when it has finished.
int SeedsWithWorkLeft(LateFault fault) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    LateStreams::All().Reset(seed, fault);
    const HfConfig config = *SyntheticConfig("tiny");
    const auto model = MakeRanks(config, 2, {.ops = &LateOps<kernels::CpuOps>()}).value();
    TestSequence sequence(*model, RandomTokens(seed, 24, config.vocab_size));
    Batch batch;
    sequence.AddTo(batch, 24);
    batch.slices.front().logits_count = 0;
    model->Compute(batch, {});
    EXPECT_TRUE(model->AwaitSampled().empty());
    model->AwaitFinished();
    if (LateStreams::All().pending_count() > 0) ++count;
  }
  return count;
}

TEST(LateRanksTest, AFinishedBatchHasEndedOnEveryRank) { EXPECT_EQ(SeedsWithWorkLeft(LateFault::kNone), 0); }

TEST(LateRanksTest, ItShowsWhenOnlyTheFirstRankIsAwaited) {
  EXPECT_GT(SeedsWithWorkLeft(LateFault::kOnlyTheFirstRankIsAwaited), 0);
}

// Late or not, the ops are the same.
TEST(LateRanksTest, LogitsAndTokensAreThoseOfDevicesThatComputeAtOnce) {
  const HfConfig config = *SyntheticConfig("tiny");
  const StepBounds bounds{.token_count = 64, .request_count = 4};
  for (const std::uint32_t rank_count : {1U, 2U}) {
    LateStreams::All().Reset(rank_count);
    const auto at_once = MakeRanks(config, rank_count).value();
    const auto late =
        MakeRanks(config, rank_count, {.step_bounds = bounds, .ops = &LateOps<kernels::CpuOps>()}).value();
    for (const TokenWay way : {TokenWay::kOverTheHost, TokenWay::kOnTheDevice}) {
      EXPECT_EQ(DrawOnwards(*late, way, 12), DrawOnwards(*at_once, way, 12));
    }
    const std::vector<TokenId> tokens = RandomTokens(1, 40, config.vocab_size);
    EXPECT_TRUE(BitEqual(AllLogits(*late, tokens), AllLogits(*at_once, tokens))) << rank_count;
  }
}

}  // namespace
}  // namespace roost::worker

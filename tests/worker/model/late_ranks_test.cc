// Ranks on devices that compute as late as they may (late_ops.h): when a batch has finished, it has on every rank.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "tests/support/late_ops.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/transfer/frame_memory.h"

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

// The next step begins as soon as the gather is launched, and writes to the block that is being read.
TEST(LateRanksTest, AStepThatWritesABlockWaitsForItsGather) {
  const HfConfig config = *SyntheticConfig("tiny");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LateStreams::All().Reset(seed);
    const std::uint32_t rank_count = 1 + seed % 2;
    const auto model = MakeRanks(config, rank_count, {.ops = &LateOps<kernels::CpuOps>(), .frame_count = 1}).value();
    const auto reader = model->MakeBlockReader();
    const FrameSizes sizes{.block_tokens = 16, .data_bytes = reader->block_bytes()};
    FrameBuffer frame = *std::make_shared<FrameMemory>(sizes, 1, model->frame_staging())->Take([] { return true; });
    const auto write = [&](std::uint64_t tokens) {
      TestSequence sequence(*model, RandomTokens(tokens, 16, config.vocab_size));  // all have the same block
      Batch batch;
      sequence.AddTo(batch, 16);
      batch.slices.front().logits_count = 0;
      model->Compute(batch, {});
    };
    const auto finish = [&] {
      EXPECT_TRUE(model->AwaitSampled().empty());
      model->AwaitFinished();
    };
    write(seed);
    finish();
    reader->Read(BlockId(0), frame.data(), [] {});
    const std::vector<std::byte> before(frame.data().begin(), frame.data().end());
    reader->Read(BlockId(0), frame.data(), [&] { write(seed + 1); });
    EXPECT_TRUE(std::equal(before.begin(), before.end(), frame.data().begin()));
    finish();
    reader->Read(BlockId(0), frame.data(), [] {});
    EXPECT_FALSE(std::equal(before.begin(), before.end(), frame.data().begin()));
  }
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

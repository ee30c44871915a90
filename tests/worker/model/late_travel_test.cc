// Blocks of whole models on the CUDA backend behind the SIMT shim, on devices that compute as late as they may
// (late_ops.h): from any number of ranks to any other, the same bytes, and logits as near as the backend's batches are.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "tests/support/late_ops.h"
#include "tests/support/simt/simt_ops.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/transfer/frame_memory.h"

namespace roost::worker {
namespace {

using testing_support::LateOps;
using testing_support::LateStreams;

constexpr std::uint32_t kWholeBlocks = 2;

HfConfig Config() {
  HfConfig config = *SyntheticConfig("tiny");
  config.head_dim = 64;
  return config;
}

class LateTravelTest : public testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {
 protected:
  struct Side {
    explicit Side(std::uint32_t rank_count)
        : model(MakeRanks(Config(), rank_count,
                          {.dtype = kernels::DType::kBF16,
                           .block_count = 40,
                           .ops = &LateOps<simt::SimtOps>(),
                           .frame_count = kWholeBlocks})
                    .value()),
          reader(model->MakeBlockReader()) {
      const FrameSizes sizes{.block_tokens = 16, .data_bytes = reader->block_bytes()};
      const auto memory = std::make_shared<FrameMemory>(sizes, kWholeBlocks, model->frame_staging());
      for (FrameBuffer& frame : frames) frame = *memory->Take([] { return true; });
    }

    [[nodiscard]] std::vector<std::byte> Read(std::uint32_t block, std::size_t frame) {
      reader->Read(BlockId(block), frames[frame].data(), [] {});
      return {frames[frame].data().begin(), frames[frame].data().end()};
    }

    std::unique_ptr<TensorParallelModel> model;
    std::unique_ptr<BlockReader> reader;
    std::array<FrameBuffer, kWholeBlocks> frames;
  };
};

TEST_P(LateTravelTest, BlocksHaveTheSameBytesAndLogitsAreAsNearAsThoseOfOtherBatches) {
  const auto [source_ranks, own_ranks] = GetParam();
  LateStreams::All().Reset(source_ranks * 10 + own_ranks);
  const std::vector<TokenId> tokens = RandomTokens(5, kWholeBlocks * 16 + 7, Config().vocab_size);
  Side source(source_ranks);
  TestSequence sequence(*source.model, tokens);
  Batch prompt;
  sequence.AddTo(prompt, kWholeBlocks * 16);
  prompt.slices.front().logits_count = 0;
  (void)source.model->Forward(prompt);
  Side own(own_ranks);
  Batch arrived;
  const std::array<BlockId, kWholeBlocks + 1> blocks{BlockId(9), BlockId(3), BlockId(5)};
  std::vector<std::vector<std::byte>> sent;
  for (std::uint32_t i = 0; i < kWholeBlocks; ++i) {
    sent.push_back(source.Read(2 * i, i));  // where a TestSequence has its blocks
    std::copy(sent[i].begin(), sent[i].end(), own.frames[i].data().begin());
    own.model->frame_staging()->Stage(own.frames[i].data());
    arrived.writes.push_back({blocks[i], own.frames[i].data()});
  }
  // In one step with what reads them.
  Batch rest;
  sequence.AddTo(rest, 7);
  arrived.tokens = rest.tokens;
  arrived.slices = {{blocks, kWholeBlocks * 16, 7, 1}};
  const std::span<const float> logits = own.model->Forward(arrived);
  const std::vector<float> after{logits.begin(), logits.end()};
  for (std::uint32_t i = 0; i < kWholeBlocks; ++i) EXPECT_EQ(own.Read(blocks[i].value(), i), sent[i]) << "block " << i;
  const std::span<const float> in_place = source.model->Forward(rest);
  if (source_ranks == own_ranks) {
    EXPECT_TRUE(BitEqual(after, in_place));
  } else {
    EXPECT_LT(RelativeError(after, in_place), source.model->arithmetic().batch_tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LateTravelTest,
                         testing::Combine(testing::Values(1U, 2U, 4U), testing::Values(1U, 2U, 4U)));

}  // namespace
}  // namespace roost::worker

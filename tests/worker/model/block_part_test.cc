// Blocks that are read from one model and written into another one: the same bytes whatever the ranks, and the same
// bits of logits as of blocks that the model computed itself.
#include "worker/model/block_part.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "tests/worker/model/model_testing.h"
#include "tests/worker/model/rank_testing.h"

namespace roost::worker {
namespace {

using kernels::DType;

constexpr std::uint32_t kTokens = 16 * 5 + 3;
constexpr std::uint32_t kWholeBlocks = 5;

using Bytes = std::vector<std::byte>;

std::vector<BlockId> EverySecond(std::uint32_t first, std::uint32_t count) {
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < count; ++i) blocks.emplace_back(first + 2 * i);
  return blocks;
}

// The blocks that TestSequence fills.
std::vector<Bytes> ReadBlocks(const Model& model, std::uint32_t first, std::uint32_t count) {
  const auto reader = model.MakeBlockReader();
  std::vector<Bytes> blocks;
  for (const BlockId block : EverySecond(first, count)) {
    blocks.emplace_back(reader->block_bytes());
    reader->Read(block, blocks.back(), [] {});
  }
  return blocks;
}

void WriteBlocks(Model& model, std::uint32_t first, const std::vector<Bytes>& blocks) {
  Batch batch;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) batch.writes.push_back({BlockId(first + 2 * i), blocks[i]});
  EXPECT_TRUE(model.Forward(batch).empty());
}

// The logits of the last token, with the blocks before it taken as they are.
std::vector<float> LogitsBehindBlocks(Model& model, const std::vector<TokenId>& tokens, std::uint32_t first_block) {
  const std::vector<BlockId> blocks = EverySecond(first_block, kWholeBlocks + 1);
  const std::uint32_t first = kWholeBlocks * model.block_tokens();
  const auto count = static_cast<std::uint32_t>(tokens.size()) - first;
  Batch batch;
  batch.tokens.assign(tokens.begin() + first, tokens.end());
  batch.slices.push_back({blocks, first, count, 1});
  const auto logits = model.Forward(batch);
  return {logits.begin(), logits.end()};
}

class TravellingBlocksTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto dtypes = ComputeDTypes();
    if (std::find(dtypes.begin(), dtypes.end(), GetParam()) == dtypes.end()) {
      GTEST_SKIP() << "this CPU does not compute in " << NameOf(GetParam());
    }
  }
};

TEST_P(TravellingBlocksTest, GiveTheSameBitsInAnotherModel) {
  const auto source = MakeTestModel({.dtype = GetParam()});
  const auto target = MakeTestModel({.dtype = GetParam()});
  const std::vector<TokenId> tokens = RandomTokens(3, kTokens, source->shape().vocab_size);
  const std::vector<float> wanted = LastLogits(*source, tokens, 1000);
  constexpr std::uint32_t kElsewhere = 41;
  WriteBlocks(*target, kElsewhere, ReadBlocks(*source, 0, kWholeBlocks));
  EXPECT_EQ(ReadBlocks(*target, kElsewhere, kWholeBlocks), ReadBlocks(*source, 0, kWholeBlocks));
  EXPECT_EQ(LogitsBehindBlocks(*target, tokens, kElsewhere), wanted);
}

// Each block is copied only after it is written, in the same batch.
TEST_P(TravellingBlocksTest, AreWrittenBeforeRowsAreCopied) {
  const auto source = MakeTestModel({.dtype = GetParam()});
  const auto target = MakeTestModel({.dtype = GetParam()});
  const std::vector<TokenId> tokens = RandomTokens(4, kTokens, source->shape().vocab_size);
  (void)LastLogits(*source, tokens, 1000);
  const std::vector<Bytes> blocks = ReadBlocks(*source, 0, kWholeBlocks);
  Batch batch;
  for (std::uint32_t i = 0; i < kWholeBlocks; ++i) {
    batch.poisoned.push_back(BlockId(2 * i));
    batch.writes.push_back({BlockId(2 * i), blocks[i]});
    batch.copies.push_back({BlockId(2 * i), BlockId(2 * i + 101), target->block_tokens()});
  }
  (void)target->Forward(batch);
  EXPECT_EQ(ReadBlocks(*target, 101, kWholeBlocks), blocks);
}

INSTANTIATE_TEST_SUITE_P(DTypes, TravellingBlocksTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(NameOf(param.param)); });

// One element of the layout, from its definition.
TEST(BlockPartTest, ARanksPiecesAreItsHeadsOfTheWholeBlock) {
  constexpr std::uint32_t kLayers = 3, kHeads = 6, kBlockTokens = 4, kHeadDim = 8, kBlocks = 3;
  const kernels::KvLayout whole{.dtype = DType::kF32,
                                .block_count = kBlocks,
                                .layer_count = kLayers,
                                .kv_head_count = kHeads,
                                .block_tokens = kBlockTokens,
                                .head_dim = kHeadDim};
  for (const std::uint32_t rank_heads : {1U, 2U, 3U, 6U}) {
    std::vector<std::vector<float>> memory;
    std::vector<BlockPart> parts;
    for (std::uint32_t first = 0; first < kHeads; first += rank_heads) {
      kernels::KvLayout layout = whole;
      layout.kv_head_count = rank_heads;
      std::vector<float>& pool = memory.emplace_back(layout.BlockBytes() / sizeof(float) * kBlocks);
      layout.base = pool.data();
      for (std::uint32_t block = 0; block < kBlocks; ++block) {
        for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
          for (std::uint32_t head = 0; head < rank_heads; ++head) {
            for (std::uint32_t i = 0; i < kBlockTokens * kHeadDim; ++i) {
              const auto value = static_cast<float>(((block * kLayers + layer) * kHeads + first + head) * 1000 + i);
              pool[layout.KOffset(block, layer, head) + i] = value;
              pool[layout.VOffset(block, layer, head) + i] = -value;
            }
          }
        }
      }
      parts.push_back({layout, first, kHeads});
    }
    const auto reader = MakePartsReader(parts);
    ASSERT_EQ(reader->block_bytes(), whole.BlockBytes());
    std::vector<float> read(whole.BlockBytes() / sizeof(float));
    reader->Read(BlockId(2), std::as_writable_bytes(std::span(read)), [] {});
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      for (std::uint32_t head = 0; head < kHeads; ++head) {
        for (std::uint32_t i = 0; i < kBlockTokens * kHeadDim; ++i) {
          const auto value = static_cast<float>(((2 * kLayers + layer) * kHeads + head) * 1000 + i);
          ASSERT_EQ(read[whole.KOffset(0, layer, head) + i], value) << rank_heads << " heads, layer " << layer;
          ASSERT_EQ(read[whole.VOffset(0, layer, head) + i], -value) << rank_heads << " heads, layer " << layer;
        }
      }
    }
  }
}

// From every number of ranks to every other one; with four ranks, ranks share heads.
TEST(TravellingBlocksOfRanksTest, GoFromAnyNumberOfRanksToAnyOther) {
  const HfConfig config = *SyntheticConfig("tiny");
  const std::vector<TokenId> tokens = RandomTokens(5, kTokens, config.vocab_size);
  for (const std::uint32_t from : {1U, 2U, 4U}) {
    const auto source = MakeRanks(config, from).value();
    const std::vector<float> wanted = LastLogits(*source, tokens, 1000);
    const std::vector<Bytes> blocks = ReadBlocks(*source, 0, kWholeBlocks);
    for (const std::uint32_t to : {1U, 2U, 4U}) {
      const auto target = MakeRanks(config, to).value();
      WriteBlocks(*target, 41, blocks);
      EXPECT_EQ(ReadBlocks(*target, 41, kWholeBlocks), blocks) << from << " ranks to " << to;
      const std::vector<float> logits = LogitsBehindBlocks(*target, tokens, 41);
      if (from == to) {
        EXPECT_EQ(logits, wanted);
      }
      EXPECT_LT(RelativeError(logits, wanted), 1e-5) << from << " ranks to " << to;
    }
  }
}

}  // namespace
}  // namespace roost::worker

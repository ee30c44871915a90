// Whole models on the CUDA backend behind the SIMT shim, as far as only the shim can show it: which steps are replays,
// what padding and the warm-up write, and that steps are cut into partial items.
#include <algorithm>
#include <cstring>
#include <map>

#include "tests/support/simt/simt_ops.h"
#include "tests/worker/model/model_testing.h"

namespace roost::worker {
namespace {

using kernels::AttentionItem;
using kernels::Device;
using kernels::DType;
using kernels::OpTable;

constexpr std::uint8_t kNotWritten = 0xA5;
constexpr std::uint32_t kBlocks = 120;
constexpr StepBounds kBounds{.token_count = 64, .request_count = 7};

// The calls of the process to the shim since a test began.
struct Asked {
  std::size_t recordings = 0;
  std::size_t replays = 0;
  std::size_t partial_items = 0;
  std::size_t empty_items = 0;
  std::size_t merges = 0;
  std::map<std::uint8_t*, std::size_t> memory;
};

Asked& AskedSoFar() {
  static Asked asked;
  return asked;
}

void* AllocateMarked(Device& device, std::size_t bytes) {
  void* memory = simt::SimtOps().allocate(device, bytes);
  std::memset(memory, kNotWritten, bytes);
  AskedSoFar().memory[static_cast<std::uint8_t*>(memory)] = bytes;
  return memory;
}

const OpTable& WatchedOps() {
  static const OpTable kOps = [] {
    OpTable ops = simt::SimtOps();
    ops.allocate = AllocateMarked;
    ops.end_recording = [](Device& device) {
      ++AskedSoFar().recordings;
      return simt::SimtOps().end_recording(device);
    };
    ops.replay = [](Device& device, const kernels::Recording& recording) {
      ++AskedSoFar().replays;
      simt::SimtOps().replay(device, recording);
    };
    ops.attention = [](Device& device, const kernels::AttentionArgs& args) {
      for (const AttentionItem& item : std::span(args.items, args.item_count)) {
        if (item.row_count == 0) ++AskedSoFar().empty_items;
        if (item.output == AttentionItem::Output::kPartial) ++AskedSoFar().partial_items;
      }
      AskedSoFar().merges += args.merge_count;
      simt::SimtOps().attention(device, args);
    };
    return ops;
  }();
  return kOps;
}

const OpTable& OpsWithoutRecordings() {
  static const OpTable kOps = [] {
    OpTable ops = simt::SimtOps();
    ops.begin_recording = nullptr;
    ops.end_recording = nullptr;
    ops.replay = nullptr;
    return ops;
  }();
  return kOps;
}

class RecordedStepsSimtTest : public testing::Test {
 protected:
  RecordedStepsSimtTest() { AskedSoFar() = {}; }

  static HfConfig Config() {
    HfConfig config = *SyntheticConfig("tiny");
    config.head_dim = 64;
    return config;
  }

  struct Side {
    std::unique_ptr<Transformer> model;
    std::vector<TestSequence> sequences;
  };

  static Side Make(const OpTable& ops, const StepBounds& bounds, std::uint32_t length = 60) {
    Side side{MakeModel(Config(), RandomWeights(kTestSeed),
                        {.dtype = DType::kBF16, .block_count = kBlocks, .step_bounds = bounds, .ops = &ops})
                  .value(),
              {}};
    for (std::uint32_t i = 0; i < kBounds.request_count; ++i) {
      // Sequences use even or odd blocks, one range after another.
      side.sequences.emplace_back(*side.model, RandomTokens(i, length, Config().vocab_size), i % 2 + 16 * (i / 2));
    }
    return side;
  }

  // The next `counts[i]` tokens of sequence i.
  static std::vector<float> Step(Side& side, const std::vector<std::uint32_t>& counts) {
    Batch batch;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) side.sequences[i].AddTo(batch, counts[i]);
    }
    const auto logits = side.model->Forward(batch);
    return {logits.begin(), logits.end()};
  }

  static std::size_t BlockBytes() { return KvBlockBytes(Config(), 16, DType::kBF16); }

  // The KV pool, with the spare block that padding writes to.
  static std::span<const std::uint8_t> Pool() {
    for (const auto& [memory, bytes] : AskedSoFar().memory) {
      if (bytes == BlockBytes() * (kBlocks + 1)) return {memory, bytes};
    }
    return {};
  }

  static bool IsUnwritten(std::span<const std::uint8_t> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == kNotWritten; });
  }
};

TEST_F(RecordedStepsSimtTest, PaddedDecodesFromRecordingsGiveTheBitsOfOpsCalledOneByOne) {
  Side plain = Make(OpsWithoutRecordings(), {});
  Side recorded = Make(WatchedOps(), {});
  const auto step = [&](const std::vector<std::uint32_t>& counts) {
    ASSERT_TRUE(BitEqual(Step(recorded, counts), Step(plain, counts)));
  };
  step({20, 7, 33, 1, 16, 2, 9});
  EXPECT_EQ(AskedSoFar().recordings, 0U);
  for (int i = 0; i < 4; ++i) step({1, 1, 1, 0, 0, 0, 0});  // padded to four
  EXPECT_EQ(AskedSoFar().recordings, 1U);
  EXPECT_EQ(AskedSoFar().replays, 3U);
  EXPECT_GT(AskedSoFar().empty_items, 0U);
  step({1, 0, 0, 12, 0, 0, 0});                             // a prefill in between
  for (int i = 0; i < 3; ++i) step({0, 1, 0, 1, 1, 0, 0});  // other sequences, from the same recording
  EXPECT_EQ(AskedSoFar().recordings, 1U);
  EXPECT_EQ(AskedSoFar().replays, 6U);
  for (int i = 0; i < 4; ++i) step({1, 0, 1, 1, 1, 1, 1});  // padded to eight
  EXPECT_EQ(AskedSoFar().replays, 9U);
}

TEST_F(RecordedStepsSimtTest, DecodesAreReplayedFromTheFirstOneOnAfterAWarmUp) {
  Side warm = Make(WatchedOps(), kBounds);
  Side plain = Make(OpsWithoutRecordings(), {});
  const std::size_t recordings = AskedSoFar().recordings;
  EXPECT_GT(recordings, 4U);
  std::vector<std::uint32_t> counts(kBounds.request_count, 1);
  for (std::size_t requests = kBounds.request_count; requests > 0; --requests) {
    if (requests < counts.size()) counts[requests] = 0;
    ASSERT_TRUE(BitEqual(Step(warm, counts), Step(plain, counts))) << requests << " requests";
  }
  EXPECT_EQ(AskedSoFar().recordings, recordings);
  EXPECT_EQ(AskedSoFar().replays, kBounds.request_count);
}

TEST_F(RecordedStepsSimtTest, TheWarmUpWritesToNoBlock) {
  const Side warm = Make(WatchedOps(), kBounds);
  ASSERT_FALSE(Pool().empty());
  EXPECT_TRUE(IsUnwritten(Pool().first(BlockBytes() * kBlocks)));
  EXPECT_FALSE(IsUnwritten(Pool().last(BlockBytes()))) << "its step does not write behind the blocks";
}

TEST_F(RecordedStepsSimtTest, PaddingWritesToTheSpareSlotsAlone) {
  Side side = Make(WatchedOps(), {});
  for (int i = 0; i < 3; ++i) (void)Step(side, {1, 1, 1, 1, 1, 0, 0});  // padded to eight
  ASSERT_EQ(AskedSoFar().replays, 2U);
  const std::span<const std::uint8_t> pool = Pool();
  ASSERT_FALSE(pool.empty());
  const std::size_t row_bytes = std::size_t{Config().head_dim} * 2;
  // K of the first head in the first layer: [slot].
  const auto slot = [&](std::size_t block, std::size_t i) {
    return pool.subspan(block * BlockBytes() + i * row_bytes, row_bytes);
  };
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(IsUnwritten(slot(kBlocks, i)), i >= 3) << "spare slot " << i;
  for (const std::size_t used : {0U, 1U, 16U, 17U, 32U}) {
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(IsUnwritten(slot(used, i)), i >= 3) << "slot " << i;
  }
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const bool is_used = block <= 32 && block % 16 <= 1;
    EXPECT_EQ(IsUnwritten(pool.subspan(block * BlockBytes(), BlockBytes())), !is_used) << "block " << block;
  }
}

TEST_F(RecordedStepsSimtTest, TokensPlacedOnTheDeviceGetIntoReplays) {
  const auto draw = [](const OpTable& ops, TokenWay way) {
    const auto model = MakeModel(Config(), RandomWeights(kTestSeed), {.dtype = DType::kBF16, .ops = &ops}).value();
    return DrawOnwards(*model, way, 8);
  };
  const auto wanted = draw(OpsWithoutRecordings(), TokenWay::kOverTheHost);
  EXPECT_EQ(draw(WatchedOps(), TokenWay::kOnTheDevice), wanted);
  EXPECT_GT(AskedSoFar().replays, 3U);
}

TEST_F(RecordedStepsSimtTest, StepsOfLongContextsHavePartialItemsAndAgreeWithTheReference) {
  const std::vector<TokenId> tokens = RandomTokens(5, 500, Config().vocab_size);
  const auto logits_of = [&](const OpTable& ops, DType dtype) {
    const auto model = MakeModel(Config(), RandomWeights(kTestSeed), {.dtype = dtype, .ops = &ops}).value();
    TestSequence sequence(*model, tokens);
    std::vector<std::vector<float>> logits;
    for (const std::uint32_t count : {496U, 1U, 1U, 1U, 1U}) {
      Batch batch;
      sequence.AddTo(batch, count);
      const auto result = model->Forward(batch);
      logits.emplace_back(result.begin(), result.end());
    }
    return logits;
  };
  const auto wanted = logits_of(kernels::ReferenceOps(), DType::kF32);
  const auto logits = logits_of(WatchedOps(), DType::kBF16);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(RelativeError(logits[i], wanted[i]), 0.04) << "step " << i;
  EXPECT_GT(AskedSoFar().partial_items, 20U);
  EXPECT_GT(AskedSoFar().merges, 10U);
  EXPECT_EQ(AskedSoFar().replays, 3U);
}

}  // namespace
}  // namespace roost::worker

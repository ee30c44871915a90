// The transformer against a naive one, and its strongest guarantee: the logits of a token do not depend, bit for bit,
// on how its prompt was cut, on what else was in the batch, on block size or threads.
#include "worker/model/transformer.h"

#include <gmock/gmock.h>

#include "tests/worker/model/model_testing.h"
#include "tests/worker/model/naive_transformer.h"

namespace roost::worker {
namespace {

using kernels::DType;

constexpr std::uint32_t kManyThreads = 2;

// Variants of the tiny model, so that every part of a configuration matters.
std::vector<HfConfig> Configs() {
  HfConfig qwen3 = *SyntheticConfig("tiny");
  HfConfig llama = qwen3;
  llama.qk_norm = QkNorm::kNone;
  llama.tie = EmbeddingTie::kUntied;
  llama.rope = {10000, Llama3Scaling{8, 1, 4, 32}};
  llama.kv_head_count = 4;
  HfConfig qwen2 = qwen3;
  qwen2.qk_norm = QkNorm::kNone;
  qwen2.qkv_bias = Bias::kBiased;
  qwen2.kv_head_count = 1;
  qwen2.head_dim = 24;
  HfConfig biased = llama;
  biased.qkv_bias = biased.o_bias = biased.mlp_bias = Bias::kBiased;
  biased.rope.scaling = LinearScaling{4};
  HfConfig yarn = qwen3;
  yarn.rope = {100, YarnScaling{.factor = 4,
                                .original_max_positions = 32,
                                .beta_fast = 4,
                                .bounds = YarnBounds::kExact,
                                .attention_factor = 1.3}};
  return {qwen3, llama, qwen2, biased, yarn};
}

double ErrorAgainstNaive(const HfConfig& config, const TestModelOptions& options) {
  const RandomWeights weights(kTestSeed);
  const auto model = MakeModel(config, weights, options).value();
  const std::vector<TokenId> tokens = RandomTokens(1, 50, config.vocab_size);
  const std::vector<float> logits = AllLogits(*model, tokens);
  const auto naive = NaiveTransformer(config, weights).Logits(tokens);
  double worst = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::vector<float> wanted(naive[t].begin(), naive[t].end());
    worst = std::max(worst, RelativeError(std::span(logits).subspan(t * config.vocab_size, config.vocab_size), wanted));
  }
  return worst;
}

TEST(TransformerTest, AgreesWithTheNaiveOne) {
  for (const HfConfig& config : Configs()) {
    EXPECT_LT(ErrorAgainstNaive(config, {.ops = &kernels::ReferenceOps()}), 1e-5);
    EXPECT_LT(ErrorAgainstNaive(config, {}), 1e-5);
  }
}

TEST(TransformerTest, IsCloseToTheNaiveOneInBF16) {
  for (const HfConfig& config : Configs()) {
    for (const DType dtype : ComputeDTypes()) EXPECT_LT(ErrorAgainstNaive(config, {.dtype = dtype}), 0.05);
  }
}

class DeterminismOfModelTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto dtypes = ComputeDTypes();
    if (std::find(dtypes.begin(), dtypes.end(), GetParam()) == dtypes.end()) {
      GTEST_SKIP() << "this CPU does not compute in " << NameOf(GetParam());
    }
    tokens_ = RandomTokens(2, 601, 320);  // more than two spans of attention
    const auto model = MakeTestModel({.dtype = GetParam()});
    wanted_ = LastLogits(*model, tokens_, 1000);
  }

  std::vector<TokenId> tokens_;
  std::vector<float> wanted_;
};

TEST_P(DeterminismOfModelTest, ChunksThreadsAndBlockSizesChangeNoBit) {
  for (const std::uint32_t threads : {1U, kManyThreads}) {
    for (const std::uint32_t block_tokens : {4U, 16U, 256U}) {
      const auto model = MakeTestModel({.dtype = GetParam(),
                                        .thread_count = threads,
                                        .block_tokens = block_tokens,
                                        .block_count = 1400 / block_tokens + 10});
      for (const std::uint32_t chunk : {1U, 2U, 7U, 16U, 1000U}) {
        EXPECT_TRUE(BitEqual(LastLogits(*model, tokens_, chunk), wanted_))
            << threads << " threads, blocks of " << block_tokens << ", chunks of " << chunk;
      }
    }
  }
}

TEST_P(DeterminismOfModelTest, OthersInTheBatchChangeNoBit) {
  for (const std::uint32_t threads : {1U, kManyThreads}) {
    const auto model = MakeTestModel({.dtype = GetParam(), .thread_count = threads});
    TestSequence watched(*model, tokens_, 1);
    Rng rng(threads);
    std::vector<float> last;
    while (!watched.done()) {
      // Other sequences of random lengths, before and after, some without wanted logits.
      Batch batch;
      std::vector<TestSequence> others;
      others.reserve(8);
      const std::uint64_t before = rng.Below(3);
      for (std::uint32_t i = 0; i < 4; ++i) {
        if (i == before)
          watched.AddTo(batch, std::min(watched.remaining(), 1 + static_cast<std::uint32_t>(rng.Below(60))));
        others.emplace_back(*model, RandomTokens(rng(), 1 + rng.Below(40), 320), 100 + 6 * i);
        others.back().AddTo(batch, others.back().remaining());
        BatchSlice& slice = batch.slices.back();
        slice.logits_count = static_cast<std::uint32_t>(rng.Below(slice.token_count + 1));
      }
      std::size_t index = 0;
      for (std::size_t slice = 0; slice < before; ++slice) index += batch.slices[slice].logits_count;
      const auto logits = model->Forward(batch);
      last.assign(logits.begin() + static_cast<std::ptrdiff_t>(index * 320),
                  logits.begin() + static_cast<std::ptrdiff_t>((index + 1) * 320));
    }
    EXPECT_TRUE(BitEqual(last, wanted_)) << threads << " threads";
  }
}

TEST_P(DeterminismOfModelTest, ASequenceGoesOnFromBlocksThatAnotherFilled) {
  const auto model = MakeTestModel({.dtype = GetParam()});
  const std::vector<TokenId> prefix(tokens_.begin(), tokens_.begin() + 304);
  LastLogits(*model, prefix, 50);
  // The same blocks now hold the first 304 tokens; only the rest is computed.
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < 19; ++i) blocks.emplace_back(2 * i);
  for (std::uint32_t i = 100; i < 119; ++i) blocks.emplace_back(i);
  Batch batch;
  batch.tokens.assign(tokens_.begin() + 304, tokens_.end());
  batch.slices.push_back({blocks, 304, 297, 1});
  EXPECT_TRUE(BitEqual(model->Forward(batch), wanted_));
}

TEST_P(DeterminismOfModelTest, BlocksPoisonedBeforeTheyAreWrittenChangeNoBit) {
  for (const std::uint32_t chunk : {1U, 7U, 16U, 1000U}) {
    const auto model = MakeTestModel({.dtype = GetParam()});
    TestSequence sequence(*model, tokens_);
    std::vector<float> last;
    while (!sequence.done()) {
      Batch batch;
      const std::uint32_t count = std::min(chunk, sequence.remaining());
      const auto begun = sequence.Begun(count, model->block_tokens());
      batch.poisoned.assign(begun.begin(), begun.end());
      sequence.AddTo(batch, count);
      const auto logits = model->Forward(batch);
      last.assign(logits.begin(), logits.end());
    }
    EXPECT_TRUE(BitEqual(last, wanted_)) << "chunks of " << chunk;
  }
}

TEST_P(DeterminismOfModelTest, RowsCopiedToAPoisonedBlockArriveAndTheOthersStayPoisoned) {
  const auto model = MakeTestModel({.dtype = GetParam()});
  const std::vector<TokenId> tokens(tokens_.begin(), tokens_.begin() + 12);
  const std::vector<float> wanted = LastLogits(*model, tokens, 100);  // in block 0
  for (const std::uint32_t row_count : {10U, 11U}) {
    Batch batch;
    const std::vector<BlockId> blocks = {BlockId(5)};
    batch.poisoned = blocks;
    batch.copies.push_back({BlockId(0), BlockId(5), row_count});
    batch.tokens = {tokens.back()};
    batch.slices.push_back({blocks, 11, 1, 1});
    const std::span<const float> logits = model->Forward(batch);
    EXPECT_EQ(BitEqual(logits, wanted), row_count == 11);
    EXPECT_EQ(std::isnan(logits[0]), row_count == 10);
  }
}

TEST_P(DeterminismOfModelTest, TokensPlacedWhereTheyWereDrawnChangeNothing) {
  const auto over_host = MakeTestModel({.dtype = GetParam()});
  const auto on_device = MakeTestModel({.dtype = GetParam()});
  EXPECT_EQ(DrawOnwards(*on_device, TokenWay::kOnTheDevice, 20), DrawOnwards(*over_host, TokenWay::kOverTheHost, 20));
}

INSTANTIATE_TEST_SUITE_P(DTypes, DeterminismOfModelTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(NameOf(param.param)); });

TEST(TransformerTest, GivesLogitsToTheSlicesThatWantThemInOrder) {
  const auto model = MakeTestModel({});
  const auto first = RandomTokens(1, 20, 320);
  const auto second = RandomTokens(2, 9, 320);
  const std::vector<float> wanted = LastLogits(*model, second, 100);
  TestSequence a(*model, first, 20);
  TestSequence b(*model, second, 40);
  Batch batch;
  a.AddTo(batch, 20);
  b.AddTo(batch, 9);
  batch.slices[0].logits_count = 0;
  EXPECT_TRUE(BitEqual(model->Forward(batch), wanted));
  EXPECT_TRUE(model->Forward(Batch{}).empty());
}

TEST(TransformerTest, TellsWhenEachPartOfABatchIsDone) {
  const auto model = MakeTestModel({});
  std::uint32_t pulses = 0;
  model->SetPulse([&pulses] { ++pulses; });
  TestSequence sequence(*model, RandomTokens(1, 20, 320), 20);
  Batch batch;
  sequence.AddTo(batch, 20);
  static_cast<void>(model->Forward(batch));
  EXPECT_EQ(pulses, 5 * model->shape().layer_count + 1) << "four products and the attention of each layer; the logits";
  model->SetPulse({});
  static_cast<void>(model->Forward(batch));
  EXPECT_EQ(pulses, 5 * model->shape().layer_count + 1);
}

TEST(TransformerTest, RefusesOptionsThatCanNotWork) {
  const HfConfig config = *SyntheticConfig("tiny");
  const RandomWeights weights(1);
  EXPECT_EQ(MakeModel(config, weights, {.block_tokens = 5}).error().field, "block_tokens");
  EXPECT_EQ(MakeModel(config, weights, {.block_count = 0}).error().field, "block_count");
  auto cpu = kernels::Backend::Open(kernels::CpuOps(), {}).value();
  EXPECT_EQ(Transformer::Create(std::move(cpu), config, weights, {.kv_share = 0.5}).error().field, "kv_memory");
  EXPECT_EQ(MakeModel(config, weights, {.block_count = 0x7fffffff}).error().field, "block_count");
  kernels::OpTable small = kernels::CpuOps();
  small.memory_use = [](kernels::Device& /*device*/) {
    return std::optional(kernels::MemoryUse{.free_bytes = 12345, .total_bytes = 20000});
  };
  const Error too_large = MakeModel(config, weights, {.block_count = 100, .ops = &small}).error();
  EXPECT_EQ(too_large.field, "kv-memory");
  EXPECT_THAT(too_large.message, testing::HasSubstr("100 KV blocks have 819200 bytes"));
  EXPECT_THAT(too_large.message, testing::HasSubstr("12345 bytes free"));
  EXPECT_EQ(MakeModel(config, weights, {.dtype = DType::kF16}).error().field, "compute_dtype");
}

// Otherwise the first draw would end the process.
TEST(TransformerTest, MoreTokensThanADrawChoosesFromAreRefusedBeforeAnyWeightIsRead) {
  HfConfig config = *SyntheticConfig("tiny");
  config.vocab_size = kernels::kMaxSampledVocab;
  EXPECT_EQ(MakeModel(config, NoWeights(), {}).error().field, "a weight");
  ++config.vocab_size;
  for (const kernels::OpTable* ops : {&kernels::CpuOps(), &kernels::ReferenceOps()}) {
    EXPECT_EQ(MakeModel(config, NoWeights(), {.ops = ops}).error().field, "vocab_size");
  }
}

}  // namespace
}  // namespace roost::worker

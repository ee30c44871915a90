// A model on several ranks gives the same results as on one: equal logits up to the order of sums, and the same tokens.
#include "worker/model/tensor_parallel.h"

#include <atomic>
#include <cmath>

#include "tests/support/recording_ops.h"
#include "tests/worker/model/golden_models.h"
#include "tests/worker/model/rank_testing.h"
#include "worker/model/load_model.h"

namespace roost::worker {
namespace {

using testing_support::CountsOfRecordings;
using testing_support::RecordingOps;

constexpr double kTolerance = 1e-5;

// The golden models, each with the rank counts into which it can be split.
struct Split {
  std::string model;
  std::uint32_t rank_count = 0;
};

Result<LoadedModel> LoadGolden(const Split& split) {
  const std::filesystem::path folder = GoldensDir() / split.model;
  return LoadModel({folder.string()}, {.compute_dtype = ComputeDType::kF32,
                                       .block_count = 512,
                                       .max_context_tokens = Golden(folder).context_tokens(),
                                       .device_ordinals = std::vector<std::uint32_t>(split.rank_count, 0)});
}

std::vector<Split> Splits() {
  std::vector<Split> splits;
  for (const std::string& model : GoldenNames()) {
    for (const std::uint32_t rank_count : {2U, 3U, 4U}) {
      if (LoadGolden({model, rank_count}).ok()) splits.push_back({model, rank_count});
    }
  }
  return splits;
}

class GoldenRanksTest : public testing::TestWithParam<Split> {};

TEST_P(GoldenRanksTest, LogitsAgreeWithOneRankAndWithTransformers) {
  const Golden golden(GoldensDir() / GetParam().model);
  const std::vector<TokenId> tokens = golden.Ids("input_ids");
  const auto stored = golden.Get<float>("logits");
  const LoadedModel whole = LoadGolden({GetParam().model, 1}).value();
  const LoadedModel split = LoadGolden(GetParam()).value();
  EXPECT_EQ(split.fingerprint, whole.fingerprint);
  const std::size_t vocab = whole.model->shape().vocab_size;
  const std::vector<float> wanted = AllLogits(*whole.model, tokens);
  const std::vector<float> logits = AllLogits(*split.model, tokens);
  ASSERT_EQ(logits.size(), stored.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto row = std::span(logits).subspan(t * vocab, vocab);
    EXPECT_LE(RelativeError(row, std::span(wanted).subspan(t * vocab, vocab)), kTolerance) << "token " << t;
    EXPECT_LE(RelativeError(row, stored.subspan(t * vocab, vocab)), kGoldenTolerance) << "token " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenRanksTest, testing::ValuesIn(Splits()), [](const auto& param) {
  std::string name = param.param.model + "_" + std::to_string(param.param.rank_count);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GoldenSplitsTest, EveryModelCanBeSplitAndSomeIntoFour) {
  const std::vector<Split> splits = Splits();
  for (const std::string& name : GoldenNames()) {
    EXPECT_TRUE(std::any_of(splits.begin(), splits.end(), [&](const Split& split) { return split.model == name; }))
        << name;
  }
  EXPECT_TRUE(std::any_of(splits.begin(), splits.end(), [](const Split& split) { return split.rank_count == 4; }));
}

// Every part of a configuration matters in one of them; with four ranks, ranks share kv heads.
std::vector<HfConfig> Configs() {
  HfConfig qwen3 = *SyntheticConfig("tiny");
  HfConfig llama = qwen3;
  llama.qk_norm = QkNorm::kNone;
  llama.tie = EmbeddingTie::kUntied;
  llama.kv_head_count = 4;
  llama.vocab_size = 331;  // uneven shares
  HfConfig qwen2 = qwen3;
  qwen2.qk_norm = QkNorm::kNone;
  qwen2.qkv_bias = Bias::kBiased;
  qwen2.kv_head_count = 1;
  HfConfig biased = llama;
  biased.qkv_bias = biased.o_bias = biased.mlp_bias = Bias::kBiased;
  biased.rope.scaling = YarnScaling{.factor = 4, .original_max_positions = 32, .attention_factor = 1.3};
  return {qwen3, llama, qwen2, biased};
}

class RanksTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr std::uint32_t kVocab = 320;

  std::unique_ptr<TensorParallelModel> Make(const TestModelOptions& options = {}) {
    return MakeRanks(*SyntheticConfig("tiny"), GetParam(), options).value();
  }

  std::vector<TokenId> tokens_ = RandomTokens(2, 601, kVocab);
};

TEST_P(RanksTest, LogitsAreThoseOfOneRank) {
  for (const HfConfig& config : Configs()) {
    const std::vector<TokenId> tokens = RandomTokens(1, 70, config.vocab_size);
    const auto whole = MakeModel(config, RandomWeights(kTestSeed), {}).value();
    const auto split = MakeRanks(config, GetParam()).value();
    EXPECT_EQ(split->shape().query_head_count, config.query_head_count);
    EXPECT_EQ(split->shape().vocab_size, config.vocab_size);
    EXPECT_LE(RelativeError(LastLogits(*split, tokens, 100), LastLogits(*whole, tokens, 100)), kTolerance);
  }
}

TEST_P(RanksTest, LogitsAreCloseToThoseOfOneRankInBF16) {
  for (const kernels::DType dtype : ComputeDTypes()) {
    const auto whole = MakeTestModel({.dtype = dtype});
    const auto split = Make({.dtype = dtype});
    EXPECT_LE(RelativeError(LastLogits(*split, tokens_, 1000), LastLogits(*whole, tokens_, 1000)), 0.05);
  }
}

TEST_P(RanksTest, RunsAndChunksChangeNoBit) {
  const std::vector<float> wanted = LastLogits(*Make(), tokens_, 1000);
  for (const std::uint32_t chunk : {1U, 7U, 1000U}) {
    EXPECT_TRUE(BitEqual(LastLogits(*Make(), tokens_, chunk), wanted)) << "chunks of " << chunk;
  }
}

TEST_P(RanksTest, ADecodeGoesOnFromBlocksThatAnotherSequenceFilled) {
  const auto split = Make();
  const std::vector<float> wanted = LastLogits(*split, tokens_, 1000);
  const std::vector<TokenId> prefix(tokens_.begin(), tokens_.begin() + 304);
  LastLogits(*split, prefix, 50);
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < 19; ++i) blocks.emplace_back(2 * i);
  for (std::uint32_t i = 100; i < 119; ++i) blocks.emplace_back(i);
  Batch batch;
  batch.tokens.assign(tokens_.begin() + 304, tokens_.end());
  batch.slices.push_back({blocks, 304, 297, 1});
  EXPECT_TRUE(BitEqual(split->Forward(batch), wanted));
}

// Every rank copies the rows of its heads, and poisons its part of a block.
TEST_P(RanksTest, RowsCopiedToAPoisonedBlockArriveAndTheOthersStayPoisoned) {
  const auto split = Make();
  const std::vector<TokenId> tokens(tokens_.begin(), tokens_.begin() + 12);
  const std::vector<float> wanted = LastLogits(*split, tokens, 100);  // in block 0
  for (const std::uint32_t row_count : {10U, 11U}) {
    Batch batch;
    const std::vector<BlockId> blocks = {BlockId(5)};
    batch.poisoned = blocks;
    batch.copies.push_back({BlockId(0), BlockId(5), row_count});
    batch.tokens = {tokens.back()};
    batch.slices.push_back({blocks, 11, 1, 1});
    const std::span<const float> logits = split->Forward(batch);
    EXPECT_EQ(BitEqual(logits, wanted), row_count == 11);
    EXPECT_EQ(std::isnan(logits[0]), row_count == 10);
  }
}

// Prefills and decodes, some of which want logits; tokens drawn from these, and the tokens' log probabilities.
TEST_P(RanksTest, WantedRowsComeInOrderAndDrawsAreThoseOfOneRank) {
  const auto split = Make();
  const auto whole = MakeTestModel({});
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<TokenId>> drawn;
  std::vector<std::vector<float>> logprobs;
  for (Model* model : {static_cast<Model*>(whole.get()), static_cast<Model*>(split.get())}) {
    std::vector<TestSequence> sequences;
    for (std::uint32_t i = 0; i < 4; ++i) sequences.emplace_back(*model, RandomTokens(i, 20 + 5 * i, kVocab), 40 * i);
    Batch batch;
    for (TestSequence& sequence : sequences) sequence.AddTo(batch, sequence.remaining());
    batch.slices[1].logits_count = 0;
    Draws draws;
    const std::vector<kernels::LogitBias> biases = {{.token = 1, .bias = 4}};
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      draws.Add({.seed = seed, .row = static_cast<std::uint32_t>(seed % 3), .temperature = seed < 3 ? 0.0F : 1.0F},
                seed % 2 == 0 ? std::span(biases) : std::span<const kernels::LogitBias>());
      draws.Score({.row = static_cast<std::uint32_t>(seed % 3),
                   .is_drawn = true,
                   .draw = static_cast<std::uint32_t>(seed),
                   .top_count = static_cast<std::uint32_t>(seed % 4)});
    }
    model->Compute(batch, draws);
    drawn.emplace_back();
    for (const kernels::SampledToken& token : model->AwaitSampled()) drawn.back().push_back(token.token);
    const Scores scores = model->AwaitedScores();
    logprobs.emplace_back();
    for (const kernels::ScoredToken& scored : scores.tokens) logprobs.back().push_back(scored.logprob);
    for (const kernels::TopToken& top : scores.top) logprobs.back().push_back(top.logprob);
    const auto rows = model->Logits();
    logits.emplace_back(rows.begin(), rows.end());
  }
  ASSERT_EQ(logprobs[0].size(), 30U + 43U);
  EXPECT_LE(RelativeError(logprobs[1], logprobs[0]), kTolerance);
  ASSERT_EQ(logits[1].size(), 3 * std::size_t{kVocab});
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_LE(RelativeError(std::span(logits[1]).subspan(row * kVocab, kVocab),
                            std::span(logits[0]).subspan(row * kVocab, kVocab)),
              kTolerance);
  }
  EXPECT_EQ(drawn[1], drawn[0]);
}

TEST_P(RanksTest, TokensPlacedWhereTheyWereDrawnAreThoseOfOneRank) {
  const auto whole = MakeTestModel({});
  EXPECT_EQ(DrawOnwards(*Make(), TokenWay::kOnTheDevice, 20), DrawOnwards(*whole, TokenWay::kOverTheHost, 20));
}

TEST_P(RanksTest, ABatchWithoutWantedLogitsAndAnEmptyOneGiveNone) {
  const auto split = Make();
  TestSequence sequence(*split, RandomTokens(1, 20, kVocab));
  Batch batch;
  sequence.AddTo(batch, 20);
  batch.slices[0].logits_count = 0;
  EXPECT_TRUE(split->Forward(batch).empty());
  EXPECT_TRUE(split->Forward(Batch{}).empty());
}

// Every rank records its ops, including the collective ones, and all replay at the same steps.
TEST_P(RanksTest, RecordedStepsChangeNoBit) {
  const auto plain = Make();
  const auto recorded = Make({.ops = &RecordingOps()});
  TestSequence plain_sequence(*plain, tokens_);
  TestSequence recorded_sequence(*recorded, tokens_);
  const std::uint64_t before = CountsOfRecordings().replayed;
  for (std::uint32_t step = 0; step < 20; ++step) {
    Batch plain_batch;
    Batch recorded_batch;
    plain_sequence.AddTo(plain_batch, step == 0 ? 40 : 1);
    recorded_sequence.AddTo(recorded_batch, step == 0 ? 40 : 1);
    const auto wanted = plain->Forward(plain_batch);
    ASSERT_TRUE(BitEqual(recorded->Forward(recorded_batch), wanted)) << "step " << step;
  }
  EXPECT_GE(CountsOfRecordings().replayed - before, 10U * GetParam());
}

// Then all arrays of a step move on every rank, and earlier recordings become useless.
TEST_P(RanksTest, RecordedStepsOutliveDrawsThatNeedMoreMemory) {
  const auto plain = Make();
  const auto recorded = Make({.ops = &RecordingOps()});
  std::vector<kernels::LogitBias> biases;
  for (TokenId token = 0; token < kVocab; ++token) biases.push_back({.token = token, .bias = 1});
  TestSequence plain_sequence(*plain, tokens_);
  TestSequence recorded_sequence(*recorded, tokens_);
  const auto before = CountsOfRecordings();
  for (std::uint32_t step = 0; step < 20; ++step) {
    Draws draws;
    for (std::uint32_t i = 0; i < (step == 10 ? 100 : 1); ++i) draws.Add({.seed = i, .temperature = 1}, biases);
    std::vector<std::vector<TokenId>> drawn;
    for (auto [model, sequence] : {std::pair(plain.get(), &plain_sequence), {recorded.get(), &recorded_sequence}}) {
      Batch batch;
      sequence->AddTo(batch, 1);
      model->Compute(batch, draws);
      drawn.emplace_back();
      for (const kernels::SampledToken& token : model->AwaitSampled()) drawn.back().push_back(token.token);
    }
    ASSERT_EQ(drawn[1], drawn[0]) << "step " << step;
    ASSERT_TRUE(BitEqual(recorded->Logits(), plain->Logits())) << "step " << step;
  }
  // Once before the arrays moved, and once after.
  EXPECT_GE(CountsOfRecordings().recorded - before.recorded, 2U * GetParam());
  EXPECT_GE(CountsOfRecordings().replayed - before.replayed, 10U * GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, RanksTest, testing::Values(2U, 4U));

TEST(TensorParallelTest, WhatCanNotBeSplitIsRefused) {
  EXPECT_EQ(MakeRanks(*SyntheticConfig("tiny"), 3).error().field, "tensor_parallel");
  EXPECT_EQ(LoadModel({"synthetic:tiny"}, {.block_count = 8, .device_ordinals = {0, 0, 0}}).error().field,
            "tensor_parallel");
  EXPECT_EQ(LoadModel({"synthetic:tiny"}, {.block_count = 8, .device_ordinals = {}}).error().field, "tensor_parallel");
}

// Every device but the first has too little memory: the first rank loads, and ends without waiting for the others.
TEST(TensorParallelTest, OneRankThatCanNotLoadIsTheAnswer) {
  static const std::thread::id first = std::this_thread::get_id();
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::CpuOps();
    ops.allocate = [](kernels::Device& device, std::size_t bytes) {
      return std::this_thread::get_id() == first ? kernels::CpuOps().allocate(device, bytes) : nullptr;
    };
    return ops;
  }();
  EXPECT_EQ(MakeRanks(*SyntheticConfig("tiny"), 2, {.ops = &kOps}).error().field, "block_count");
  EXPECT_EQ(MakeRanks(*SyntheticConfig("tiny"), 2, {.block_tokens = 5}).error().field, "block_tokens");
}

TEST(TensorParallelTest, ThePoolsBytesAreThoseOfAllRanks) {
  const auto blocks_of = [](std::vector<std::uint32_t> ordinals) {
    const ModelOptions options{
        .compute_dtype = ComputeDType::kF32, .kv_bytes = 1 << 20, .device_ordinals = std::move(ordinals)};
    return LoadModel({"synthetic:tiny"}, options).value().model->block_count();
  };
  EXPECT_EQ(blocks_of({0, 0}), blocks_of({0}));
  EXPECT_EQ(blocks_of({0, 0, 0, 0}), blocks_of({0}) / 2);  // two kv heads, each held twice
}

// Blocks of any number of ranks are equal up to rounding.
TEST(TensorParallelTest, TheArithmeticsNameHasTheDTypeAndNotTheNumberOfRanks) {
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::CpuOps();
    ops.arithmetic = [](kernels::Device& /*device*/) {
      return kernels::Arithmetic{.batch_tolerance = 0.5F, .name = "card, versions"};
    };
    return ops;
  }();
  const auto whole = MakeTestModel({.ops = &kOps});
  const auto split = MakeRanks(*SyntheticConfig("tiny"), 2, {.ops = &kOps}).value();
  EXPECT_EQ(whole->arithmetic().name, "card, versions, f32");
  EXPECT_EQ(split->arithmetic().name, whole->arithmetic().name);
  EXPECT_EQ(split->arithmetic().batch_tolerance, 0.5F);
  EXPECT_EQ(MakeTestModel({})->arithmetic().name, "");
}

// The first rank that asks has twice the free memory of the others.
TEST(TensorParallelTest, AShareOfFreeMemoryGivesTheBlocksThatEveryRankHasRoomFor) {
  static std::atomic<std::size_t> asked{0};
  static const kernels::OpTable kOps = [] {
    kernels::OpTable ops = kernels::CpuOps();
    ops.memory_use = [](kernels::Device& /*device*/) -> std::optional<kernels::MemoryUse> {
      return kernels::MemoryUse{.free_bytes = (asked.fetch_add(1) == 0 ? std::size_t{4} : std::size_t{2}) << 20U,
                                .total_bytes = std::size_t{8} << 20U};
    };
    return ops;
  }();
  const auto split = MakeRanks(*SyntheticConfig("tiny"), 2, {.block_count = 0, .ops = &kOps}, 0.5).value();
  EXPECT_EQ(split->DeviceMemory().size(), 2U);
  // A block of a rank: K and V of 16 tokens, one head of 16, two layers, in f32.
  EXPECT_EQ(split->block_count(), (std::size_t{1} << 20U) / (2 * 16 * 16 * 2 * 4));
  EXPECT_FALSE(LastLogits(*split, RandomTokens(1, 20, 320), 20).empty());
}

}  // namespace
}  // namespace roost::worker

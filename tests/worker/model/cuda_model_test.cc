// Whole models on the CUDA backend, behind the SIMT shim or on a device, against the CPU; see
// tests/kernels/tested_ops.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/tested_ops.h"
#include "tests/worker/model/golden_models.h"
#include "tests/worker/model/model_testing.h"
#include "worker/model/load_model.h"

namespace roost::worker {
namespace {

using kernels::DType;

class CudaModelTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = kernels::TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    ops_ = *ops;
  }

  const kernels::OpTable* ops_ = nullptr;
};

// Models that CUDA's attention supports; every part of a configuration matters in one of them.
std::vector<HfConfig> Configs() {
  HfConfig qwen3 = *SyntheticConfig("tiny");
  qwen3.head_dim = 64;
  HfConfig llama = qwen3;
  llama.qk_norm = QkNorm::kNone;
  llama.tie = EmbeddingTie::kUntied;
  llama.rope = {10000, Llama3Scaling{8, 1, 4, 32}};
  HfConfig qwen2 = qwen3;
  qwen2.qk_norm = QkNorm::kNone;
  qwen2.qkv_bias = Bias::kBiased;
  qwen2.kv_head_count = 1;
  qwen2.head_dim = 128;
  HfConfig biased = llama;
  biased.qkv_bias = biased.o_bias = biased.mlp_bias = Bias::kBiased;
  biased.rope.scaling = YarnScaling{.factor = 4, .original_max_positions = 32, .attention_factor = 1.3};
  return {qwen3, llama, qwen2, biased};
}

// bf16 between all ops: each op rounds by up to 1/256, and the errors of some tens of roundings add up like a random
// walk.
constexpr double kTolerance = 0.04;
// Products of other row counts add their sums in another order: both sides round, but start from the same weights.
constexpr double kBatchTolerance = 0.02;

TEST_F(CudaModelTest, AgreesWithTheReference) {
  for (const HfConfig& config : Configs()) {
    const RandomWeights weights(kTestSeed);
    const std::vector<TokenId> tokens = RandomTokens(1, 40, config.vocab_size);
    const auto reference = MakeModel(config, weights, {.ops = &kernels::ReferenceOps()}).value();
    const auto tested = MakeModel(config, weights, {.dtype = DType::kBF16, .ops = ops_}).value();
    const std::vector<float> wanted = LastLogits(*reference, tokens, 40);
    EXPECT_LT(RelativeError(LastLogits(*tested, tokens, 40), wanted), kTolerance);
    EXPECT_LT(RelativeError(LastLogits(*tested, tokens, 7), wanted), kTolerance) << "in chunks";
  }
}

TEST_F(CudaModelTest, SizesThatTheKernelsDoNotComputeAreRefusedBeforeAnyWeightIsRead) {
  const auto refused = [this](const HfConfig& config) {
    return MakeModel(config, NoWeights(), {.dtype = DType::kBF16, .ops = ops_}).error().field;
  };
  HfConfig config = Configs().front();
  EXPECT_EQ(refused(config), "a weight");
  config.vocab_size = kernels::kMaxSampledVocab + 1;
  EXPECT_EQ(refused(config), "vocab_size");
  config = Configs().front();
  config.hidden_size = 32'768;
  EXPECT_EQ(refused(config), "hidden_size");
  config = Configs().front();
  config.head_dim = 96;
  EXPECT_EQ(refused(config), "head_dim");
}

// On a device each of the two has its own measurements of which product is the fastest.
TEST_F(CudaModelTest, AModelThatWasWarmedUpComputesTheSame) {
  const HfConfig config = Configs().front();
  const std::vector<TokenId> tokens = RandomTokens(4, 40, config.vocab_size);
  const auto logits_of = [&](const StepBounds& bounds) {
    const auto model =
        MakeModel(config, RandomWeights(kTestSeed), {.dtype = DType::kBF16, .step_bounds = bounds, .ops = ops_})
            .value();
    std::vector<float> logits = LastLogits(*model, tokens, 24);
    const std::vector<float> of_decodes = AllLogits(*model, tokens);
    logits.insert(logits.end(), of_decodes.begin(), of_decodes.end());
    return logits;
  };
  const std::vector<float> wanted = logits_of({});
  EXPECT_LT(RelativeError(logits_of({.token_count = 100, .request_count = 9}), wanted), kBatchTolerance);
}

// Hits are verified with twice the tolerance of these tests, because real models have more layers.
TEST_F(CudaModelTest, TheBackendAllowsMoreRoundingThanTheseModelsHave) {
  const auto model = MakeModel(Configs().front(), RandomWeights(kTestSeed), {.dtype = DType::kBF16, .ops = ops_});
  EXPECT_GE(model.value()->arithmetic().batch_tolerance, 2 * kBatchTolerance - 1e-6);
  EXPECT_TRUE(model.value()->arithmetic().name.ends_with(", bf16"));
}

// Prefills and decodes in one batch, and blocks that are copied before it.
TEST_F(CudaModelTest, ABatchGivesWhatItsSequencesGiveAlone) {
  const HfConfig config = Configs().front();
  const auto model = MakeModel(config, RandomWeights(kTestSeed), {.dtype = DType::kBF16, .ops = ops_}).value();
  const std::vector<TokenId> long_tokens = RandomTokens(2, 70, config.vocab_size);
  const std::vector<TokenId> short_tokens = RandomTokens(3, 21, config.vocab_size);
  const std::vector<float> long_alone = LastLogits(*model, long_tokens, 100);
  const std::vector<float> short_alone = LastLogits(*model, short_tokens, 100);

  TestSequence decoding(*model, long_tokens);
  TestSequence prefilling(*model, short_tokens, 1);
  Batch batch;
  decoding.AddTo(batch, 69);
  ASSERT_EQ(model->Forward(batch).size(), config.vocab_size);
  batch.Clear();
  decoding.AddTo(batch, 1);
  prefilling.AddTo(batch, 21);
  const std::span<const float> logits = model->Forward(batch);
  ASSERT_EQ(logits.size(), 2 * config.vocab_size);
  EXPECT_LT(RelativeError(logits.first(config.vocab_size), long_alone), kBatchTolerance);
  EXPECT_LT(RelativeError(logits.last(config.vocab_size), short_alone), kBatchTolerance);
}

// Steps have the same shapes, so a device records those that come again.
TEST_F(CudaModelTest, TokensPlacedWhereTheyWereDrawnAreThoseThatCameOverTheHost) {
  const auto model =
      MakeModel(Configs().front(), RandomWeights(kTestSeed), {.dtype = DType::kBF16, .ops = ops_}).value();
  EXPECT_EQ(DrawOnwards(*model, TokenWay::kOnTheDevice, 8), DrawOnwards(*model, TokenWay::kOverTheHost, 8));
}

std::uint32_t Best(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Whether rounding can not swap the likeliest token and the next one: their logits differ by more than 1 % of the
// largest.
bool IsClear(std::span<const float> logits) {
  const std::uint32_t best = Best(logits);
  float second = -std::numeric_limits<float>::infinity();
  float largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i != best) second = std::max(second, logits[i]);
    largest = std::max(largest, std::abs(logits[i]));
  }
  return logits[best] - second > 0.01F * largest;
}

// The logits [tokens][vocab] agree where one token is clearly the likeliest; returns the number of such places.
std::size_t ExpectSameClearTokens(std::span<const float> logits, std::span<const float> wanted, std::size_t vocab) {
  std::size_t compared = 0;
  for (std::size_t begin = 0; begin < wanted.size(); begin += vocab) {
    const auto row = wanted.subspan(begin, vocab);
    if (!IsClear(row)) continue;
    ++compared;
    EXPECT_EQ(Best(logits.subspan(begin, vocab)), Best(row)) << "token " << begin / vocab;
  }
  return compared;
}

TEST_F(CudaModelTest, TheDemoModelsGreedyTokensAreTheCpus) {
  const std::string folder = DemoModelDir();
  const auto load = [&folder](const kernels::OpTable* ops, ComputeDType dtype) {
    return LoadModel({folder}, {.compute_dtype = dtype, .block_count = 64, .ops = ops}).value();
  };
  const LoadedModel cpu = load(&kernels::CpuOps(), ComputeDType::kF32);
  const LoadedModel cuda = load(ops_, ComputeDType::kAuto);
  EXPECT_EQ(cuda.kv_dtype, "bf16");
  EXPECT_EQ(cuda.fingerprint, cpu.fingerprint);
  const std::uint32_t vocab = cpu.model->shape().vocab_size;

  // Text that the model writes itself, so that certain and uncertain tokens are mixed as in use.
  std::vector<TokenId> tokens{static_cast<TokenId>(2045), static_cast<TokenId>(40)};
  while (tokens.size() < 160) {
    const std::vector<float> last = LastLogits(*cpu.model, tokens, 256);
    tokens.push_back(static_cast<TokenId>(Best(last)));
  }
  const std::vector<float> wanted = AllLogits(*cpu.model, tokens);
  const std::vector<float> logits = AllLogits(*cuda.model, tokens);
  EXPECT_GE(ExpectSameClearTokens(logits, wanted, vocab), 100);
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += (double{logits[i]} - wanted[i]) * (double{logits[i]} - wanted[i]);
    norm += double{wanted[i]} * wanted[i];
  }
  EXPECT_LT(std::sqrt(difference / norm), 0.02);
}

// The golden models whose heads CUDA's attention has, against what transformers computed from the same files in f32.
class CudaGoldenTest : public CudaModelTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CudaModelTest::SetUp();
    if (IsSkipped()) return;
    loaded_ = LoadModel({(GoldensDir() / GetParam()).string()},
                        {.block_count = 16, .max_context_tokens = golden_.context_tokens(), .ops = ops_})
                  .value();
    vocab_ = loaded_.model->shape().vocab_size;
  }

  const Golden golden_{GoldensDir() / GetParam()};
  LoadedModel loaded_;
  std::size_t vocab_ = 0;
};

TEST_P(CudaGoldenTest, LogitsAgreeWithTransformers) {
  const std::vector<TokenId> tokens = golden_.Ids("input_ids");
  const std::span<const float> wanted = golden_.Get<float>("logits");
  ASSERT_EQ(wanted.size(), tokens.size() * vocab_);
  const std::vector<float> logits = AllLogits(*loaded_.model, tokens);
  EXPECT_LT(RelativeError(logits, wanted), kTolerance);
  EXPECT_LT(RelativeError(LastLogits(*loaded_.model, tokens, 64), wanted.last(vocab_)), kTolerance) << "as a prompt";
  EXPECT_GT(ExpectSameClearTokens(logits, wanted, vocab_), tokens.size() / 2);
}

TEST_P(CudaGoldenTest, GreedyTokensAgreeWithTransformersWhereTheyAreClear) {
  const std::vector<TokenId> wanted = golden_.Ids("greedy_ids");
  std::vector<TokenId> tokens = golden_.Ids("input_ids");
  std::size_t compared = 0;
  for (const TokenId token : wanted) {
    const std::vector<float> logits = LastLogits(*loaded_.model, tokens, 256);
    if (IsClear(logits)) {
      ++compared;
      EXPECT_EQ(static_cast<TokenId>(Best(logits)), token) << "after " << tokens.size() << " tokens";
    }
    tokens.push_back(token);
  }
  EXPECT_GE(compared, wanted.size() / 2);
}

// Heads of 64 and 128, with each architecture's own parts.
INSTANTIATE_TEST_SUITE_P(Models, CudaGoldenTest,
                         testing::Values("llama-llama3-rope-head-64", "mistral-head-128", "qwen2-head-64",
                                         "qwen2-head-128"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(CudaModelTest, BlocksFillTheirShareOfTheFreeMemory) {
  auto config = *SyntheticConfig("tiny");
  config.head_dim = 64;
  const std::size_t block_bytes = KvBlockBytes(config, 16, DType::kBF16);
  auto backend = kernels::Backend::Open(*ops_, {}).value();
  const std::size_t free_bytes = ops_->memory_use(backend.device())->free_bytes;
  const auto model = Transformer::Create(
      std::move(backend), config, RandomWeights(kTestSeed),
      {.block_tokens = 16, .kv_share = 0.25, .max_context_tokens = 64, .compute_dtype = DType::kBF16});
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const double blocks = 0.25 * static_cast<double>(free_bytes) / static_cast<double>(block_bytes);
  // On a device the weights take a little of the memory.
  EXPECT_LE((*model)->block_count(), blocks);
  EXPECT_GE((*model)->block_count(), 0.9 * blocks - 1);
  EXPECT_FALSE(LastLogits(**model, RandomTokens(1, 20, config.vocab_size), 20).empty());
}

}  // namespace
}  // namespace roost::worker

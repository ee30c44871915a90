// Every model under goldens/ against the logits that Hugging Face transformers computed from the same files in float32.
#include <algorithm>
#include <filesystem>

#include "tests/model/naive_logprobs.h"
#include "tests/worker/model/golden_models.h"
#include "tests/worker/model/model_testing.h"
#include "worker/model/load_model.h"

namespace roost::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kBlockTokens = 8;

LoadedModel LoadInF32(const fs::path& folder, std::optional<std::uint32_t> context_tokens = std::nullopt) {
  return LoadModel({folder.string()}, {.compute_dtype = ComputeDType::kF32,
                                       .block_tokens = kBlockTokens,
                                       .block_count = 512,
                                       .max_context_tokens = context_tokens})
      .value();
}

// Computes the tokens of a sequence from `first` on at once, in blocks that hold the earlier ones; returns the last
// token's logits.
std::vector<float> ComputeFrom(Model& model, std::uint32_t first, const std::vector<TokenId>& tokens,
                               const std::vector<BlockId>& blocks) {
  Batch batch;
  batch.tokens.assign(tokens.begin() + first, tokens.end());
  batch.slices.push_back({blocks, first, static_cast<std::uint32_t>(tokens.size()) - first, 1});
  const auto logits = model.Forward(batch);
  return {logits.begin(), logits.end()};
}

// Checks the golden's greedy tokens one after the other, after a prompt whose first `cached` tokens are cached.
void ExpectGreedyTokens(Model& model, const Golden& golden, std::uint32_t cached, const std::vector<BlockId>& blocks) {
  const std::vector<TokenId> wanted = golden.Ids("greedy_ids");
  const auto margins = golden.Get<float>("margins");
  std::vector<TokenId> tokens = golden.Ids("input_ids");
  std::uint32_t computed = cached;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<float> logits = ComputeFrom(model, computed, tokens, blocks);
    const auto best = std::max_element(logits.begin(), logits.end());
    ASSERT_GT(margins[i], 1e-3F) << "no test of output " << i;
    ASSERT_EQ(static_cast<TokenId>(best - logits.begin()), wanted[i]) << "output " << i;
    computed = static_cast<std::uint32_t>(tokens.size());
    tokens.push_back(wanted[i]);
  }
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, LogitsAgreeWithTransformers) {
  const Golden golden(GoldensDir() / GetParam());
  const LoadedModel loaded = LoadInF32(GoldensDir() / GetParam(), golden.context_tokens());
  const std::vector<TokenId> tokens = golden.Ids("input_ids");
  const std::span<const float> wanted = golden.Get<float>("logits");
  const std::size_t vocab = loaded.model->shape().vocab_size;
  ASSERT_EQ(wanted.size(), tokens.size() * vocab);
  const std::vector<float> logits = AllLogits(*loaded.model, tokens);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    EXPECT_LE(RelativeError(std::span(logits).subspan(t * vocab, vocab), wanted.subspan(t * vocab, vocab)),
              kGoldenTolerance)
        << "token " << t;
  }
  EXPECT_FALSE(loaded.text.stop_tokens.empty());
  EXPECT_FALSE(loaded.text.chat_template.empty());
}

// For each token but the first, given the tokens before it.
TEST_P(GoldenTest, LogprobsAgreeWithTransformers) {
  constexpr std::uint32_t kTop = 3;
  constexpr double kTolerance = 1e-3;
  const Golden golden(GoldensDir() / GetParam());
  const LoadedModel loaded = LoadInF32(GoldensDir() / GetParam(), golden.context_tokens());
  const std::vector<TokenId> tokens = golden.Ids("input_ids");
  const std::span<const float> logits = golden.Get<float>("logits");
  const std::size_t vocab = loaded.model->shape().vocab_size;
  const auto count = static_cast<std::uint32_t>(tokens.size());
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < (count + kBlockTokens - 1) / kBlockTokens; ++i) blocks.emplace_back(i);
  Batch batch;
  batch.tokens = tokens;
  batch.slices.push_back({blocks, 0, count, count});
  Draws draws;
  for (std::uint32_t t = 0; t + 1 < count; ++t) draws.Score({.row = t, .token = tokens[t + 1], .top_count = kTop});
  loaded.model->Compute(batch, draws);
  EXPECT_TRUE(loaded.model->AwaitSampled().empty());
  const Scores scores = loaded.model->AwaitedScores();
  ASSERT_EQ(scores.tokens.size(), count - 1);
  ASSERT_EQ(scores.top.size(), kTop * (count - 1));
  for (std::uint32_t t = 0; t + 1 < count; ++t) {
    const auto wanted = testing_support::NaiveLogprobsOf(logits.subspan(t * vocab, vocab), tokens[t + 1], kTop);
    EXPECT_NEAR(scores.tokens[t].logprob, wanted.logprob, kTolerance) << "token " << t;
    for (std::uint32_t k = 0; k < kTop; ++k) {
      EXPECT_NEAR(scores.top[kTop * t + k].logprob, wanted.top_logprobs[k], kTolerance) << "token " << t;
    }
  }
}

std::string TestNameOf(const testing::TestParamInfo<std::string>& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(GoldenNames()), TestNameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenTest);

// The goldens with a greedy continuation.
std::vector<std::string> GreedyGoldenNames() {
  std::vector<std::string> names = GoldenNames();
  const auto ends = [](const std::string& name) { return !Golden(GoldensDir() / name).Has("greedy_ids"); };
  names.erase(std::remove_if(names.begin(), names.end(), ends), names.end());
  return names;
}

class GreedyGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GreedyGoldenTest, TokensAgreeWithTransformersColdAndCached) {
  const Golden golden(GoldensDir() / GetParam());
  const LoadedModel loaded = LoadInF32(GoldensDir() / GetParam(), golden.context_tokens());
  const std::uint32_t count = (golden.context_tokens() + kBlockTokens - 1) / kBlockTokens;
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < count; ++i) blocks.emplace_back(i);
  ExpectGreedyTokens(*loaded.model, golden, 0, blocks);
  // The first block belongs to the other sequence.
  for (std::uint32_t i = 1; i < count; ++i) blocks[i] = BlockId(count + i);
  ExpectGreedyTokens(*loaded.model, golden, kBlockTokens, blocks);
}

INSTANTIATE_TEST_SUITE_P(Models, GreedyGoldenTest, testing::ValuesIn(GreedyGoldenNames()), TestNameOf);

TEST(GoldensTest, EveryArchitectureAndFormHasOne) {
  const std::vector<std::string> names = GoldenNames();
  for (const char* name :
       {"llama-biases-linear", "llama-llama3-rope", "llama-llama3-rope-head-64", "llama-new-config", "llama-sharded",
        "llama-untied", "llama-yarn-in-full", "mistral", "mistral-head-128", "mistral-window", "qwen2", "qwen2-head-64",
        "qwen2-head-128", "qwen2-f16", "qwen2-window", "qwen3", "qwen3-bf16", "qwen3-yarn"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

class DemoModelTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(GoldensDir() / "demo" / "golden.safetensors"));
    loaded_ = LoadInF32(DemoModelDir());
  }

  LoadedModel loaded_;
};

TEST_F(DemoModelTest, LogitsAgreeWithTransformers) {
  const Golden golden(GoldensDir() / "demo");
  const auto positions = golden.Get<std::int32_t>("positions");
  const auto wanted = golden.Get<float>("logits");
  const std::size_t vocab = loaded_.model->shape().vocab_size;
  ASSERT_EQ(wanted.size(), positions.size() * vocab);
  const std::vector<float> logits = AllLogits(*loaded_.model, golden.Ids("input_ids"));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto row = std::span(logits).subspan(static_cast<std::size_t>(positions[i]) * vocab, vocab);
    EXPECT_LE(RelativeError(row, wanted.subspan(i * vocab, vocab)), kGoldenTolerance) << "position " << positions[i];
  }
}

TEST_F(DemoModelTest, GreedyContinuationAgreesWithTransformers) {
  const Golden golden(GoldensDir() / "demo");
  std::vector<TokenId> tokens = golden.Ids("prompt_ids");
  const std::vector<TokenId> wanted = golden.Ids("greedy_ids");
  const auto margins = golden.Get<float>("margins");
  std::vector<BlockId> blocks;
  for (std::uint32_t i = 0; i < 512; ++i) blocks.emplace_back(i);
  std::uint32_t computed = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto count = static_cast<std::uint32_t>(tokens.size()) - computed;
    Batch batch;
    const auto rest = std::span(tokens).subspan(computed, count);
    batch.tokens.assign(rest.begin(), rest.end());
    batch.slices.push_back({blocks, computed, count, 1});
    const auto logits = loaded_.model->Forward(batch);
    computed += count;
    const auto best = std::max_element(logits.begin(), logits.end());
    // If the two best tokens are nearly equal, either is right; continue with the golden's token.
    if (margins[i] > 1e-3F) {
      ASSERT_EQ(static_cast<TokenId>(best - logits.begin()), wanted[i]) << "output " << i;
    }
    tokens.push_back(wanted[i]);
  }
}

}  // namespace
}  // namespace roost::worker

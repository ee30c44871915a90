// Every model under goldens/ against the logits that Hugging Face transformers computed from the same files in float32.
#include <algorithm>
#include <filesystem>

#include "tests/worker/model/golden_models.h"
#include "tests/worker/model/model_testing.h"
#include "worker/model/load_model.h"

namespace roost::worker {
namespace {

namespace fs = std::filesystem;

LoadedModel LoadInF32(const fs::path& folder) {
  return LoadModel({folder.string()}, {.compute_dtype = ComputeDType::kF32, .block_count = 512}).value();
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, LogitsAgreeWithTransformers) {
  const Golden golden(GoldensDir() / GetParam());
  const LoadedModel loaded = LoadInF32(GoldensDir() / GetParam());
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
  EXPECT_FALSE(loaded.stop_tokens.empty());
  EXPECT_FALSE(loaded.chat_template.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(GoldenNames()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenTest);

TEST(GoldensTest, EveryArchitectureAndFormHasOne) {
  const std::vector<std::string> names = GoldenNames();
  for (const char* name : {"llama-llama3-rope", "llama-new-config", "llama-sharded", "llama-untied", "mistral", "qwen2",
                           "qwen2-f16", "qwen3", "qwen3-bf16"}) {
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
    batch.slices.push_back({blocks, computed, count, true});
    const auto logits = loaded_.model->Forward(batch);
    computed += count;
    const auto best = std::max_element(logits.begin(), logits.end());
    // Where the two best are nearly even, either is right; go on as the golden did.
    if (margins[i] > 1e-3F) {
      ASSERT_EQ(static_cast<TokenId>(best - logits.begin()), wanted[i]) << "output " << i;
    }
    tokens.push_back(wanted[i]);
  }
}

}  // namespace
}  // namespace roost::worker

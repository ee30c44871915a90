// A worker's knowledge of a model that another program computes.
#include "worker/model/loading/model_text.h"

#include <gmock/gmock.h>

#include "tests/worker/model/model_directory.h"
#include "worker/model/load_model.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelTextTest : public testing::Test {
 protected:
  void SetUp() override { WriteSmallLlama(directory_); }

  TemporaryDirectory directory_;
};

// So that workers of both kinds are one fleet.
TEST_F(ModelTextTest, AFolderHasTheFingerprintOfTheModelThatIsLoadedFromIt) {
  const DescribedModel described = DescribeModel(directory_.path()).value();
  const LoadedModel loaded = LoadModel({directory_.path().string()}, {.block_count = 8}).value();
  EXPECT_TRUE(described.has_weights);
  EXPECT_EQ(described.fingerprint, loaded.fingerprint);
  EXPECT_EQ(described.text.name, loaded.text.name);
  EXPECT_EQ(described.text.tokenizer_json, loaded.text.tokenizer_json);
  EXPECT_EQ(described.text.stop_tokens, loaded.text.stop_tokens);
}

TEST_F(ModelTextTest, OtherWeightsAreAnotherModelAndNoneAreSaid) {
  const DescribedModel whole = DescribeModel(directory_.path()).value();
  std::vector<NamedShape> tensors = SmallLlamaTensors();
  tensors.pop_back();
  directory_.Write("model.safetensors", WeightsFile(tensors));
  EXPECT_NE(DescribeModel(directory_.path())->fingerprint, whole.fingerprint);
  std::filesystem::remove(directory_.path() / "model.safetensors");
  const DescribedModel bare = DescribeModel(directory_.path()).value();
  EXPECT_FALSE(bare.has_weights);
  EXPECT_NE(bare.fingerprint, whole.fingerprint);
}

TEST_F(ModelTextTest, ArchitecturesThatAnotherEngineKnowsAreTaken) {
  directory_.Write("config.json", R"({"architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": 5,
                                      "text_config": {"vocab_size": 16}})");
  EXPECT_THAT(DescribeModel(directory_.path())->text.stop_tokens, ElementsAre(5));
}

TEST_F(ModelTextTest, WhatIsMissingIsNamed) {
  directory_.Write("config.json", "{}");
  EXPECT_THAT(DescribeModel(directory_.path()).error().ToString(), HasSubstr("vocab_size"));
  EXPECT_THAT(DescribeModel("/nowhere").error().ToString(), HasSubstr("'/nowhere' is not a folder on this host"));
  std::filesystem::remove(directory_.path() / "tokenizer.json");
  directory_.Write("config.json", R"({"vocab_size": 16})");
  EXPECT_THAT(DescribeModel(directory_.path()).error().ToString(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace roost::worker

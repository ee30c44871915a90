// A worker's knowledge of a model that another program computes.
#include "worker/model/loading/model_text.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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
  const DescribedModel described = DescribeModel(directory_.path(), FingerprintOf::kWeights).value();
  const LoadedModel loaded = LoadModel({directory_.path().string()}, {.block_count = 8}).value();
  EXPECT_EQ(described.fingerprint, loaded.fingerprint);
  EXPECT_EQ(described.text.name, loaded.text.name);
  EXPECT_EQ(described.text.tokenizer_json, loaded.text.tokenizer_json);
  EXPECT_EQ(described.text.stop_tokens, loaded.text.stop_tokens);
}

TEST_F(ModelTextTest, OtherWeightsAreAnotherModelIfTheyAreRead) {
  const auto fingerprint = [this](FingerprintOf of) { return DescribeModel(directory_.path(), of)->fingerprint; };
  const std::string whole = fingerprint(FingerprintOf::kWeights);
  const std::string text = fingerprint(FingerprintOf::kText);
  std::vector<NamedShape> tensors = SmallLlamaTensors();
  tensors.pop_back();
  directory_.Write("model.safetensors", WeightsFile(tensors));
  EXPECT_NE(fingerprint(FingerprintOf::kWeights), whole);
  EXPECT_EQ(fingerprint(FingerprintOf::kText), text);
  std::filesystem::remove(directory_.path() / "model.safetensors");
  EXPECT_EQ(fingerprint(FingerprintOf::kText), text) << "three files are enough";
  EXPECT_FALSE(DescribeModel(directory_.path(), FingerprintOf::kWeights).ok());
  directory_.Write("chat_template.jinja", "{{ messages }}");
  EXPECT_NE(fingerprint(FingerprintOf::kText), text);
}

TEST(FindModelFolderTest, ANameOfTheHubIsTheSnapshotOfItsCache) {
  TemporaryDirectory cache;
  ASSERT_EQ(setenv("HF_HUB_CACHE", cache.path().c_str(), 1), 0);
  EXPECT_EQ(FindModelFolder("/models/a/b").value(), "/models/a/b");
  EXPECT_EQ(FindModelFolder("synthetic:tiny").value(), "synthetic:tiny");
  EXPECT_THAT(FindModelFolder("team/my-model").error().ToString(), HasSubstr("not in the Hugging Face cache"));
  const std::filesystem::path own = cache.path() / "models--team--my-model";
  std::filesystem::create_directories(own / "refs");
  std::filesystem::create_directories(own / "snapshots/9c1e0f");
  std::ofstream(own / "refs/main") << "9c1e0f";
  EXPECT_EQ(FindModelFolder("team/my-model").value(), own / "snapshots/9c1e0f");
  ASSERT_EQ(unsetenv("HF_HUB_CACHE"), 0);
}

TEST_F(ModelTextTest, ArchitecturesThatAnotherEngineKnowsAreTaken) {
  directory_.Write("config.json", R"({"architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": 5,
                                      "text_config": {"vocab_size": 16}})");
  EXPECT_THAT(DescribeModel(directory_.path(), FingerprintOf::kText)->text.stop_tokens, ElementsAre(5));
}

TEST_F(ModelTextTest, WhatIsMissingIsNamed) {
  directory_.Write("config.json", "{}");
  EXPECT_THAT(DescribeModel(directory_.path(), FingerprintOf::kText).error().ToString(), HasSubstr("vocab_size"));
  EXPECT_THAT(DescribeModel("/nowhere", FingerprintOf::kText).error().ToString(),
              HasSubstr("'/nowhere' is not a folder on this host"));
  std::filesystem::remove(directory_.path() / "tokenizer.json");
  directory_.Write("config.json", R"({"vocab_size": 16})");
  EXPECT_THAT(DescribeModel(directory_.path(), FingerprintOf::kText).error().ToString(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace roost::worker

#include "deploy/roostctl/model_memory.h"
#include "tests/support/source_dir.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace roost::roostctl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// A copy of the demo model that a test may damage.
class ModelMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("model_memory_test.") + test->name());
    fs::remove_all(folder_);
    fs::copy(fs::path(testing_support::SourceDir()) / "deploy/demo-model", folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Replace(const std::string& file, const std::string& text) { std::ofstream(folder_ / file) << text; }

  std::string Complaint() const {
    const auto model = MeasureModel(folder_, MemoryOf::kDevice, kernels::DType::kF32);
    return model.ok() ? "" : model.error().ToString();
  }

  fs::path folder_;
};

TEST_F(ModelMemoryTest, CountsWeightsAndKv) {
  const auto model = MeasureModel(folder_, MemoryOf::kDevice, kernels::DType::kBF16);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->name, folder_.filename());
  EXPECT_EQ(model->architecture, "Qwen3ForCausalLM");
  // K and V for 6 layers with 2 heads of 64 numbers of 2 bytes.
  EXPECT_EQ(model->kv_bytes_per_token, 2 * 6 * 2 * 64 * 2);
  EXPECT_EQ(model->context_tokens, 4096U);
  EXPECT_EQ(model->file_bytes, fs::file_size(folder_ / "model.safetensors"));
  EXPECT_NEAR(static_cast<double>(model->weight_bytes), static_cast<double>(model->file_bytes), 40'000);
  EXPECT_TRUE(model->has_chat_template);
  const auto wider = MeasureModel(folder_, MemoryOf::kDevice, kernels::DType::kF32);
  ASSERT_TRUE(wider.ok());
  EXPECT_EQ(wider->kv_bytes_per_token, 2 * model->kv_bytes_per_token);
  EXPECT_EQ(wider->weight_bytes, 2 * model->weight_bytes);
  // The embedding, 2,048 rows of 192, is also the output matrix.
  const auto on_host = MeasureModel(folder_, MemoryOf::kHost, kernels::DType::kBF16);
  ASSERT_TRUE(on_host.ok());
  EXPECT_EQ(on_host->weight_bytes, model->weight_bytes + 2048 * 192 * 2);
}

TEST_F(ModelMemoryTest, ShapesAndTextAreCheckedAsAWorkerDoes) {
  const auto config = fs::path(testing_support::SourceDir()) / "deploy/demo-model/config.json";
  std::stringstream text;
  text << std::ifstream(config).rdbuf();
  std::string wider = text.str();
  const std::string_view kWidth = "\"intermediate_size\": 576";
  wider.replace(wider.find(kWidth), kWidth.size(), "\"intermediate_size\": 640");
  Replace("config.json", wider);
  EXPECT_THAT(Complaint(), HasSubstr("gate_proj.weight': shape is [576, 192], config.json asks for [640, 192]"));
  Replace("config.json", R"({"architectures": ["GptOssForCausalLM"]})");
  EXPECT_THAT(Complaint(), HasSubstr("--engine vllm"));
}

TEST_F(ModelMemoryTest, APresetHasAShapeAndNoFiles) {
  const auto model = MeasureModel("synthetic:qwen3-0.6b", MemoryOf::kDevice, kernels::DType::kBF16);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->name, "qwen3-0.6b");
  EXPECT_EQ(model->kv_bytes_per_token, 2 * 28 * 8 * 128 * 2);
  EXPECT_EQ(model->file_bytes, 0U);
  const auto unknown = MeasureModel("synthetic:gpt-9", MemoryOf::kDevice, kernels::DType::kBF16);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().field, "model");
}

TEST_F(ModelMemoryTest, NamesTheFileAtFault) {
  fs::remove(folder_ / "tokenizer.json");
  EXPECT_NE(Complaint().find("tokenizer.json"), std::string::npos) << Complaint();
}

TEST_F(ModelMemoryTest, NamesMissingWeights) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_NE(Complaint().find("model.safetensors"), std::string::npos) << Complaint();
}

TEST_F(ModelMemoryTest, NamesAnArchitectureThatIsNotServed) {
  Replace("config.json", R"({"architectures": ["GPT2LMHeadModel"]})");
  EXPECT_NE(Complaint().find("GPT2LMHeadModel"), std::string::npos) << Complaint();
}

TEST_F(ModelMemoryTest, NamesAFolderThatIsNotThere) {
  fs::remove_all(folder_);
  EXPECT_NE(Complaint().find(folder_.string()), std::string::npos) << Complaint();
}

TEST_F(ModelMemoryTest, PrintsWhatItFoundAndALineForPrograms) {
  std::ostringstream out;
  std::ostringstream err;
  const MemoryOptions options{.folder = folder_, .backend = "cuda", .memory_bytes = 1024 * kMiB, .worker_count = 1};
  ASSERT_EQ(RunMemory(options, out, err), 0) << err.str();
  const std::string last = out.str().substr(out.str().rfind("\nmemory: ") + 1);
  EXPECT_NE(last.find(" chat=yes dtype=bf16 "), std::string::npos) << last;
  EXPECT_NE(last.find(" context_tokens=4096 free_bytes=1073741824\n"), std::string::npos) << last;
  EXPECT_EQ(err.str(), "");
}

TEST_F(ModelMemoryTest, EndsWithAnErrorWhereTheMemoryIsShort) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunMemory({.folder = folder_, .backend = "cpu", .memory_bytes = 100 * kMiB, .worker_count = 1}, out, err),
            1);
  EXPECT_NE(err.str().find("104.9 MB of memory per worker are free"), std::string::npos) << err.str();
}

TEST_F(ModelMemoryTest, LooksAtTheMachineUnlessToldOtherwise) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunMemory({.folder = folder_, .backend = "cpu", .memory_bytes = 0, .worker_count = 1}, out, err), 0)
      << err.str();
  EXPECT_EQ(out.str().find(" free_bytes=0\n"), std::string::npos) << out.str();
}

TEST_F(ModelMemoryTest, MustBeToldWhatADeviceHas) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunMemory({.folder = folder_, .backend = "cuda", .memory_bytes = 0, .worker_count = 1}, out, err), 1);
  EXPECT_NE(err.str().find("memory-bytes: "), std::string::npos) << err.str();
}

// 160 MiB of weights and 1 MiB of KV per token: with the memory of steps, 160 + 10 + 256 MiB.
ModelSize SomeModel(std::uint32_t context_tokens) {
  ModelSize model;
  model.name = "model";
  model.weight_bytes = 160 * kMiB;
  model.kv_bytes_per_token = kMiB;
  model.context_tokens = context_tokens;
  return model;
}

// 0 if the plan is refused.
std::uint64_t PlannedTokens(const ModelSize& model, std::uint64_t free_mib, MemoryOf where, std::uint32_t workers = 1) {
  const auto plan = PlanMemory(model, {free_mib * kMiB, where}, workers);
  if (!plan.ok()) return 0;
  EXPECT_EQ(plan->kv_bytes / kMiB, plan->kv_tokens);
  return plan->kv_tokens;
}

TEST(PlanMemoryTest, TakesHalfOfWhatWeightsAndStepsLeaveOnTheHost) {
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 426 + 4000, MemoryOf::kHost), 2000U);
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 2 * (426 + 4000), MemoryOf::kHost, 2), 2000U);
}

TEST(PlanMemoryTest, TakesNineTenthsOfItOnADevice) {
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 426 + 40'000, MemoryOf::kDevice), 36'000U);
}

TEST(PlanMemoryTest, BoundsWhatItTakesOnTheHost) {
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 1'000'000, MemoryOf::kHost), 8192U);      // 8 GiB
  EXPECT_EQ(PlannedTokens(SomeModel(100), 1'000'000, MemoryOf::kHost), 6400U);       // 64 contexts
  EXPECT_EQ(PlannedTokens(SomeModel(10'000), 1'000'000, MemoryOf::kHost), 10'000U);  // one context
}

TEST(PlanMemoryTest, RefusesWhatHoldsNoUsefulContext) {
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 426 + 2048, MemoryOf::kHost), 1024U);
  EXPECT_EQ(PlannedTokens(SomeModel(100), 426 + 200, MemoryOf::kHost), 100U);
  const auto plan = PlanMemory(SomeModel(2048), {(426 + 2046) * kMiB, MemoryOf::kHost}, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(plan.error().message.find("2.6 GB of memory per worker are free; weights take 167.8 MB"), std::string::npos)
      << plan.error().message;
  EXPECT_EQ(PlannedTokens(SomeModel(2048), 100, MemoryOf::kDevice), 0U);
}

}  // namespace
}  // namespace roost::roostctl

#include "deploy/roostctl/model_memory.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace roost::roostctl {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

// A copy of the demo model that a test may spoil.
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
    const auto model = MeasureModel(folder_, kernels::DType::kF32);
    return model.ok() ? "" : model.error().ToString();
  }

  fs::path folder_;
};

TEST_F(ModelMemoryTest, CountsWeightsAndKv) {
  const auto model = MeasureModel(folder_, kernels::DType::kBF16);
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->name, folder_.filename());
  EXPECT_EQ(model->architecture, "Qwen3ForCausalLM");
  // Two of 6 layers with 2 heads of 64 numbers in 2 bytes.
  EXPECT_EQ(model->kv_bytes_per_token, 2 * 6 * 2 * 64 * 2);
  EXPECT_EQ(model->context_tokens, 4096U);
  EXPECT_EQ(model->file_bytes, fs::file_size(folder_ / "model.safetensors"));
  EXPECT_NEAR(static_cast<double>(model->weight_bytes), static_cast<double>(model->file_bytes), 40'000);
  EXPECT_TRUE(model->has_chat_template);
  const auto wider = MeasureModel(folder_, kernels::DType::kF32);
  ASSERT_TRUE(wider.ok());
  EXPECT_EQ(wider->kv_bytes_per_token, 2 * model->kv_bytes_per_token);
  EXPECT_EQ(wider->weight_bytes, 2 * model->weight_bytes);
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
  const MemoryOptions options{
      .folder = folder_, .compute_dtype = "bf16", .memory_bytes = 1024 * kMiB, .worker_count = 1};
  ASSERT_EQ(RunMemory(options, out, err), 0) << err.str();
  const std::string last = out.str().substr(out.str().rfind("\nmemory: ") + 1);
  EXPECT_NE(last.find(" chat=yes dtype=bf16 "), std::string::npos) << last;
  EXPECT_NE(last.find(" context_tokens=4096 free_bytes=1073741824\n"), std::string::npos) << last;
  EXPECT_EQ(err.str(), "");
}

TEST_F(ModelMemoryTest, EndsWithAnErrorWhereTheMemoryIsShort) {
  std::ostringstream out;
  std::ostringstream err;
  const MemoryOptions options{
      .folder = folder_, .compute_dtype = "bf16", .memory_bytes = 100 * kMiB, .worker_count = 1};
  EXPECT_EQ(RunMemory(options, out, err), 1);
  EXPECT_NE(err.str().find("104.9 MB of memory are free"), std::string::npos) << err.str();
}

class PlanMemoryTest : public testing::Test {
 protected:
  static std::uint64_t KvBytes(std::uint64_t free_mib, std::uint32_t workers) {
    const auto plan = PlanMemory(kModel, {free_mib * kMiB}, workers);
    return plan.ok() ? plan->kv_bytes : 0;
  }

  // 160 MiB of weights and 1 MiB of KV per token: with what steps need, 160 + 10 + 256 MiB.
  static inline const ModelSize kModel{.name = "model",
                                       .architecture = "",
                                       .dtype = kernels::DType::kF32,
                                       .weight_bytes = 160 * kMiB,
                                       .file_bytes = 0,
                                       .kv_bytes_per_token = kMiB,
                                       .context_tokens = 2048,
                                       .has_chat_template = true};
};

TEST_F(PlanMemoryTest, TakesHalfOfWhatWeightsAndStepsLeave) {
  EXPECT_EQ(KvBytes(4426, 1), 2000 * kMiB);
  EXPECT_EQ(KvBytes(8852, 2), 2000 * kMiB);
}

TEST_F(PlanMemoryTest, TakesAtMostEightGibibytesOrOneContext) {
  EXPECT_EQ(KvBytes(1'000'000, 1), 8192 * kMiB);
  ModelSize model = kModel;
  model.context_tokens = 10'000;
  const auto plan = PlanMemory(model, {1'000'000 * kMiB}, 1);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->kv_tokens, 10'000U);
}

TEST_F(PlanMemoryTest, RefusesWhatHoldsNoUsefulContext) {
  EXPECT_EQ(KvBytes(426 + 2048, 1), 1024 * kMiB);
  const auto plan = PlanMemory(kModel, {(426 + 2047) * kMiB}, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(plan.error().message.find("2.6 GB of memory are free and 2.6 GB needed"), std::string::npos)
      << plan.error().message;
}

}  // namespace
}  // namespace roost::roostctl

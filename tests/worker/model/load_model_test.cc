// Loading whole directories: the result, and that any damage gives one Error that names its file.
#include "worker/model/load_model.h"

#include <gmock/gmock.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/worker/model/model_directory.h"
#include "worker/model/loading/fingerprint.h"
#include "worker/model/loading/synthetic.h"
#include "worker/model/loading/weight_shapes.h"
#include "worker/model/loading/weights.h"
#include "worker/model/transformer_weights.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class LoadModelTest : public testing::Test {
 protected:
  void SetUp() override { WriteSmallLlama(directory_); }

  Result<LoadedModel> Load(const ModelOptions& options = {.block_count = 8}) {
    return LoadModel({directory_.path().string()}, options);
  }
  std::string Complaint() {
    const auto loaded = Load();
    return loaded.ok() ? "" : loaded.error().ToString();
  }
  // The small model with one tensor changed, or left out if there is no shape.
  void WriteWith(const std::string& name, const std::vector<std::uint64_t>& shape) {
    std::vector<NamedShape> tensors;
    for (NamedShape& tensor : SmallLlamaTensors()) {
      if (tensor.name == name) tensor.shape = shape;
      if (!tensor.shape.empty()) tensors.push_back(std::move(tensor));
    }
    directory_.Write("model.safetensors", WeightsFile(tensors));
  }

  TemporaryDirectory directory_;
};

TEST_F(LoadModelTest, LoadsADirectory) {
  const LoadedModel loaded = Load({.compute_dtype = ComputeDType::kF32, .block_count = 8}).value();
  EXPECT_EQ(loaded.text.name, directory_.path().filename());
  EXPECT_EQ(loaded.kv_dtype, "f32");
  EXPECT_EQ(loaded.max_context_tokens, 64U);
  EXPECT_EQ(loaded.model->block_count(), 8U);
  EXPECT_EQ(loaded.model->shape().vocab_size, 16U);
  EXPECT_THAT(loaded.text.stop_tokens, ElementsAre(3));
  EXPECT_EQ(loaded.text.tokenizer_json, R"({"version": "1.0"})");
  EXPECT_EQ(loaded.fingerprint.size(), 64U);
}

TEST_F(LoadModelTest, ATrailingSlashChangesNoName) {
  const auto loaded = LoadModel({directory_.path().string() + "/"}, {.block_count = 8});
  EXPECT_EQ(loaded->text.name, directory_.path().filename());
}

TEST_F(LoadModelTest, MissingFilesAreNamed) {
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    fs::rename(directory_.path() / name, directory_.path() / "away");
    EXPECT_THAT(Complaint(), HasSubstr(name));
    fs::rename(directory_.path() / "away", directory_.path() / name);
  }
  EXPECT_EQ(Complaint(), "");
  EXPECT_THAT(LoadModel({"/no/such/directory"}, {}).error().ToString(), HasSubstr("/no/such/directory"));
}

TEST_F(LoadModelTest, ATruncatedTokenizerIsNamed) {
  directory_.Write("tokenizer.json", R"({"version": "1.)");
  EXPECT_THAT(Complaint(), HasSubstr("tokenizer.json: is not valid JSON"));
}

TEST_F(LoadModelTest, TruncatedWeightsAreNamedAtEveryLength) {
  const std::string whole = WeightsFile(SmallLlamaTensors());
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    directory_.Write("model.safetensors", whole.substr(0, size));
    EXPECT_THAT(Complaint(), HasSubstr("model.safetensors")) << size;
  }
}

TEST_F(LoadModelTest, MissingAndMisshapenTensorsAreNamed) {
  for (const NamedShape& tensor : SmallLlamaTensors()) {
    WriteWith(tensor.name, {});
    EXPECT_THAT(Complaint(), HasSubstr("model.safetensors: tensor '" + tensor.name + "' is missing"));
    std::vector<std::uint64_t> wrong = tensor.shape;
    ++wrong.back();
    WriteWith(tensor.name, wrong);
    EXPECT_THAT(Complaint(), HasSubstr("model.safetensors: tensor '" + tensor.name + "': shape is"));
  }
}

TEST_F(LoadModelTest, TensorsOfOtherDTypesAreNamed) {
  std::string bytes = WeightsFile(SmallLlamaTensors());
  // The file's first dtype is the embedding's.
  bytes.replace(bytes.find("F32"), 3, "U32");
  directory_.Write("model.safetensors", bytes);
  EXPECT_THAT(Complaint(), HasSubstr("tensor 'model.embed_tokens.weight': dtype U32 is not supported"));
}

TEST_F(LoadModelTest, ATensorThatNothingReadsIsNamed) {
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.up_proj.weight", "extra"}) {
    std::vector<NamedShape> tensors = SmallLlamaTensors();
    tensors.push_back({name, {8}});
    directory_.Write("model.safetensors", WeightsFile(tensors));
    EXPECT_THAT(Complaint(), HasSubstr(fmt::format("model.safetensors: tensor '{}' is not used", name)));
  }
}

TEST_F(LoadModelTest, ATensorOfAShardThatTheIndexDoesNotNameIsNamed) {
  fs::remove(directory_.path() / "model.safetensors");
  WriteSmallLlamaInShards(directory_);
  EXPECT_EQ(Complaint(), "");
  directory_.Write("two.safetensors", WeightsFile(SmallLlamaTensors()));
  EXPECT_THAT(Complaint(), HasSubstr("two.safetensors: tensor 'model.embed_tokens.weight' is not used"));
}

TEST_F(LoadModelTest, RotaryFrequenciesOfOldFilesMayBeThere) {
  std::vector<NamedShape> tensors = SmallLlamaTensors();
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}});
  directory_.Write("model.safetensors", WeightsFile(tensors));
  EXPECT_EQ(Complaint(), "");
}

TEST_F(LoadModelTest, TheOutputOfATiedModelMayBeTheEmbeddingOnceMoreAndNothingElse) {
  std::string config = SmallLlamaConfig();
  config.insert(1, R"("tie_word_embeddings": true, )");
  directory_.Write("config.json", config);
  EXPECT_THAT(Complaint(), HasSubstr("model.safetensors: tensor 'lm_head.weight' differs from model.embed_tokens"));
  std::string bytes = WeightsFile(SmallLlamaTensors());
  constexpr std::size_t kTableBytes = 16 * 8 * sizeof(float);
  const std::size_t embedding = bytes.size() - SmallLlamaDataBytes();
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(embedding), kTableBytes,
              bytes.end() - static_cast<std::ptrdiff_t>(kTableBytes));
  directory_.Write("model.safetensors", bytes);
  EXPECT_EQ(Complaint(), "");
}

TEST_F(LoadModelTest, RoundedWeightsAreLoggedOnce) {
  const auto log_of = [this](ComputeDType dtype, std::vector<std::uint32_t> ranks) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Load({.compute_dtype = dtype,
                      .block_count = 8,
                      .ops = &kernels::ReferenceOps(),
                      .device_ordinals = std::move(ranks)})
                    .ok());
    return testing::internal::GetCapturedStderr();
  };
  for (const std::vector<std::uint32_t>& ranks : {std::vector<std::uint32_t>{0}, {0, 0}}) {
    const std::string log = log_of(ComputeDType::kBF16, ranks);
    const std::size_t line = log.find("weights are rounded");
    ASSERT_NE(line, std::string::npos) << log;
    EXPECT_EQ(log.find("weights are rounded", line + 1), std::string::npos) << log;
    EXPECT_THAT(log.substr(line), HasSubstr("from=f32 to=bf16 tensors=8"));
  }
  EXPECT_THAT(log_of(ComputeDType::kF32, {0}), Not(HasSubstr("rounded")));
}

TEST_F(LoadModelTest, BadOptionsAreNamed) {
  EXPECT_EQ(Load({.block_tokens = 5, .block_count = 8}).error().field, "block_tokens");
  EXPECT_EQ(Load({.block_tokens = 0}).error().field, "block_tokens");
  EXPECT_EQ(Load({.block_count = 0}).error().field, "block_count");
  EXPECT_EQ(Load({.kv_bytes = 10}).error().field, "kv_bytes");
  EXPECT_EQ(Load({.thread_count = 0, .block_count = 8}).error().field, "threads");
  EXPECT_EQ(Load({.block_count = 8, .max_context_tokens = 0}).error().field, "max_context_tokens");
  EXPECT_EQ(ParseComputeDType("int8").error().field, "compute_dtype");
  EXPECT_EQ(ParseComputeDType("f32").value(), ComputeDType::kF32);
}

TEST_F(LoadModelTest, ThePoolIsSizedInBytes) {
  // One block: K and V of 16 tokens, 2 heads of 4, in f32.
  const ModelOptions options{.compute_dtype = ComputeDType::kF32, .kv_bytes = 10 * 1024 + 5};
  EXPECT_EQ(Load(options)->model->block_count(), 10U);
}

TEST_F(LoadModelTest, TheCpuHoldsKvInBF16UnlessToldOtherwise) {
  const LoadedModel loaded = Load({.kv_bytes = 10 * 1024}).value();
  EXPECT_EQ(loaded.kv_dtype, "bf16");
  EXPECT_EQ(loaded.model->block_count(), 20U);
}

TEST_F(LoadModelTest, APoolBeyondTheMemoryOfTheProcessIsRefused) {
  const std::uint64_t weight_bytes = SmallLlamaDataBytes() - 3 * 8 * sizeof(float);  // without three norms
  ModelOptions options{.compute_dtype = ComputeDType::kF32, .kv_bytes = 10 * 1024};
  options.memory_limit_bytes = options.kv_bytes + weight_bytes;
  EXPECT_TRUE(Load(options).ok());
  --*options.memory_limit_bytes;
  const Error by_bytes = Load(options).error();
  EXPECT_EQ(by_bytes.field, "kv-memory");
  EXPECT_THAT(by_bytes.message, HasSubstr("10240 bytes of KV blocks"));
  EXPECT_THAT(by_bytes.message, HasSubstr(fmt::format("the {} bytes of memory", *options.memory_limit_bytes)));
  options.block_count = 10;
  EXPECT_EQ(Load(options).error().field, "kv-blocks");
}

TEST_F(LoadModelTest, AnEmbeddingThatIsTheOutputTooCountsTwiceAsItLiesThere) {
  std::string config = SmallLlamaConfig();
  config.insert(1, R"("tie_word_embeddings": true, )");
  directory_.Write("config.json", config);
  WriteWith("lm_head.weight", {});
  ModelOptions options{.compute_dtype = ComputeDType::kF32, .kv_bytes = 10 * 1024};
  // The file has no second table, but three norms.
  options.memory_limit_bytes = options.kv_bytes + SmallLlamaDataBytes() - 3 * 8 * sizeof(float);
  EXPECT_TRUE(Load(options).ok());
  --*options.memory_limit_bytes;
  EXPECT_EQ(Load(options).error().field, "kv-memory");
}

TEST_F(LoadModelTest, AnOptionLowersTheContext) {
  EXPECT_EQ(Load({.block_count = 8, .max_context_tokens = 40})->max_context_tokens, 40U);
  EXPECT_EQ(Load({.block_count = 8, .max_context_tokens = 4000})->max_context_tokens, 64U);
}

TEST_F(LoadModelTest, ASlidingWindowIsServedUpToItsLength) {
  std::string config = SmallLlamaConfig();
  config.insert(1, R"("sliding_window": 40, )");
  directory_.Write("config.json", config);
  EXPECT_EQ(Load().error().field, "sliding_window");
  EXPECT_EQ(Load({.block_count = 8, .max_context_tokens = 41}).error().field, "sliding_window");
  EXPECT_EQ(Load({.block_count = 8, .max_context_tokens = 40})->max_context_tokens, 40U);
}

TEST(SyntheticModelTest, TinyLoadsAndDependsOnItsSeed) {
  const auto load = [](std::uint64_t seed) {
    return LoadModel({"synthetic:tiny"}, {.block_count = 4, .synthetic_seed = seed}).value();
  };
  const LoadedModel a = load(1);
  const LoadedModel b = load(2);
  EXPECT_EQ(a.text.name, "tiny");
  EXPECT_EQ(a.fingerprint, load(1).fingerprint);
  EXPECT_NE(a.fingerprint, b.fingerprint);
  EXPECT_NE(a.fingerprint, SyntheticFingerprint(*SyntheticConfig("qwen3-0.6b"), 1));
  EXPECT_THAT(a.text.stop_tokens, ElementsAre(kSyntheticTurnEnd, kSyntheticEndOfText));
  const std::vector<BlockId> blocks{BlockId(0)};
  Batch batch;
  batch.tokens = {1, 2, 3};
  batch.slices.push_back({blocks, 0, 3, 1});
  const auto of_a = a.model->Forward(batch);
  const auto of_b = b.model->Forward(batch);
  EXPECT_FALSE(std::equal(of_a.begin(), of_a.end(), of_b.begin()));
  for (const float value : of_a) EXPECT_TRUE(std::isfinite(value));
}

TEST(SyntheticModelTest, EveryPresetHasAShapeAndOthersAreRefused) {
  for (const char* preset : {"llama-3.1-8b", "qwen3-0.6b", "qwen3-8b", "small", "tiny"}) {
    EXPECT_TRUE(SyntheticConfig(preset)) << preset;
    EXPECT_THAT(std::string(kSyntheticPresets), HasSubstr(preset));
  }
  EXPECT_THAT(LoadModel({"synthetic:gpt-9"}, {}).error().ToString(), HasSubstr("no synthetic model 'gpt-9'"));
}

TEST_F(LoadModelTest, ShapesAreCheckedBeforeAnyWeightIsRead) {
  // The last tensor in the order of loading.
  WriteWith("lm_head.weight", {15, 8});
  const HfConfig config = ParseHfConfig(JsonFile::Load(directory_.path() / "config.json", 1U << 20U)->root()).value();
  const auto files = SafetensorsDirectory::Open(directory_.path());
  ASSERT_TRUE(files.ok());
  const Result<void> checked = CheckTensors(config, *files);
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().ToString(),
              HasSubstr("'lm_head.weight': shape is [15, 8], config.json asks for [16, 8]"));
  EXPECT_EQ(Complaint(), checked.error().ToString());
}

TEST_F(LoadModelTest, TheTextIsCheckedBeforeTheWeights) {
  fs::remove(directory_.path() / "model.safetensors");
  ModelOptions options{.block_count = 8};
  options.check_text = [](ModelText&) -> Result<void> { return InvalidArgument("tokenizer.json", "is wrong"); };
  EXPECT_THAT(Load(options).error().ToString(), HasSubstr("is wrong"));
}

TEST(SyntheticModelTest, EveryHigherIdIsAWordOfItsOwn) {
  constexpr std::uint32_t kSize = 151936;
  simdjson::dom::parser parser;
  const std::string json = SyntheticTokenizerJson(kSize);
  simdjson::dom::element root = parser.parse(json).value();
  std::set<std::string> words;
  std::uint32_t next = kSyntheticTurnEnd + 1;
  const simdjson::dom::object vocabulary = root["model"]["vocab"].get_object().value();
  for (const simdjson::dom::key_value_pair entry : vocabulary) {
    const std::uint64_t id = entry.value.get_uint64().value();
    if (id <= kSyntheticTurnEnd) continue;
    EXPECT_EQ(id, next++);
    EXPECT_TRUE(words.insert(std::string(entry.key)).second) << entry.key;
    EXPECT_TRUE(std::string(entry.key).starts_with("\u0120"));
  }
  EXPECT_EQ(next, kSize);
}

TEST(SyntheticModelTest, TheTokenizerHasEveryByteOnce) {
  simdjson::dom::parser parser;
  const std::string json = SyntheticTokenizerJson(kSyntheticTurnEnd + 1);
  simdjson::dom::element root = parser.parse(json).value();
  std::vector<bool> seen(256);
  const simdjson::dom::object vocab = root["model"]["vocab"].get_object().value();
  for (const simdjson::dom::key_value_pair entry : vocab) {
    const std::uint64_t id = entry.value.get_uint64().value();
    if (id >= kSyntheticEndOfText) continue;
    EXPECT_FALSE(seen[id]);
    seen[id] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 256);
  const simdjson::dom::array added = root["added_tokens"].get_array().value();
  for (const simdjson::dom::element token : added) {
    EXPECT_EQ(vocab.at_key(token["content"].get_string().value()).get_uint64().value(),
              token["id"].get_uint64().value());
  }
  EXPECT_EQ(vocab.size(), kSyntheticTurnEnd + 1U);
}

// Records the tensors that loading asks for.
class RecordedWeights final : public WeightSource {
 public:
  Result<Weight> Get(std::string_view name, std::span<const std::uint64_t> shape) const override {
    asked_.emplace(name, std::vector<std::uint64_t>(shape.begin(), shape.end()));
    return random_.Get(name, shape);
  }
  const std::map<std::string, std::vector<std::uint64_t>>& asked() const { return asked_; }

 private:
  RandomWeights random_{1};
  mutable std::map<std::string, std::vector<std::uint64_t>> asked_;
};

TEST(WeightShapesTest, TheTensorsThatAreCheckedAreThoseThatAreRead) {
  for (int shape = 0; shape < 16; ++shape) {
    HfConfig config = *SyntheticConfig("tiny");
    config.qkv_bias = (shape & 1) != 0 ? Bias::kBiased : Bias::kNone;
    config.o_bias = config.qkv_bias;
    config.mlp_bias = (shape & 2) != 0 ? Bias::kBiased : Bias::kNone;
    config.qk_norm = (shape & 4) != 0 ? QkNorm::kNormed : QkNorm::kNone;
    config.tie = (shape & 8) != 0 ? EmbeddingTie::kTied : EmbeddingTie::kUntied;
    const auto backend = kernels::Backend::Open(kernels::CpuOps(), {.thread_count = 1, .ordinal = 0}).value();
    const RecordedWeights weights;
    ASSERT_TRUE(LoadTransformerWeights(backend, config, {}, weights, kernels::DType::kF32).ok());
    std::map<std::string, std::vector<std::uint64_t>> checked;
    ASSERT_TRUE(ForEachTensor(config, [&checked](const std::string& name, std::span<const std::uint64_t> wanted) {
                  checked.emplace(name, std::vector<std::uint64_t>(wanted.begin(), wanted.end()));
                  return Result<void>();
                }).ok());
    EXPECT_EQ(checked, weights.asked()) << shape;
  }
}

}  // namespace
}  // namespace roost::worker

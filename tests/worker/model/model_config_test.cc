// config.json and the small files beside the weights: what they mean, and which keys are refused by name.
#include <gmock/gmock.h>

#include <cmath>

#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"
#include "tests/worker/model/model_directory.h"
#include "worker/model/loading/generation_config.h"
#include "worker/model/loading/hf_config.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A configuration with more keys; the first of two equal keys wins, so `keys` come first.
std::string ConfigWith(const std::string& keys, const std::string& architecture = "LlamaForCausalLM") {
  return "{" + keys + (keys.empty() ? "" : ",") + R"("architectures": [")" + architecture + R"("], "vocab_size": 100,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8,
    "max_position_embeddings": 512})";
}

Result<HfConfig> Parse(const std::string& text) {
  ROOST_ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "config.json"));
  return ParseHfConfig(file.root());
}

std::string Complaint(const std::string& keys, const std::string& architecture = "LlamaForCausalLM") {
  const auto config = Parse(ConfigWith(keys, architecture));
  return config.ok() ? "" : config.error().ToString();
}

TEST(HfConfigTest, FillsInDefaults) {
  const HfConfig config = Parse(ConfigWith("")).value();
  EXPECT_EQ(config.kv_head_count, 8U);
  EXPECT_EQ(config.head_dim, 8U);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(config.rope.scaling));
  EXPECT_EQ(config.tie, EmbeddingTie::kUntied);
  EXPECT_EQ(config.qkv_bias, Bias::kNone);
  EXPECT_EQ(config.qk_norm, QkNorm::kNone);
}

TEST(HfConfigTest, ArchitecturesDifferInBiasesNormsAndHeads) {
  EXPECT_EQ(Parse(ConfigWith("", "Qwen2ForCausalLM"))->qkv_bias, Bias::kBiased);
  EXPECT_EQ(Parse(ConfigWith("", "Qwen3ForCausalLM"))->qk_norm, QkNorm::kNormed);
  EXPECT_EQ(Parse(ConfigWith("", "Qwen3ForCausalLM"))->head_dim, 128U);
  EXPECT_EQ(Parse(ConfigWith(R"("head_dim": 32)", "Qwen3ForCausalLM"))->head_dim, 32U);
}

TEST(HfConfigTest, ReadsRopeOfOldAndNewFiles) {
  const std::string llama3 = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 8192)";
  const HfConfig old_file =
      Parse(ConfigWith(R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" + llama3 + "}")).value();
  const HfConfig new_file =
      Parse(ConfigWith(R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" + llama3 + "}"))
          .value();
  for (const HfConfig& config : {old_file, new_file}) {
    EXPECT_EQ(config.rope.theta, 500000);
    const auto* scaling = std::get_if<Llama3Scaling>(&config.rope.scaling);
    ASSERT_NE(scaling, nullptr);
    EXPECT_EQ(scaling->factor, 8);
    EXPECT_EQ(scaling->original_max_positions, 8192);
  }
  EXPECT_EQ(Complaint(R"("rope_scaling": {"type": "default"})"), "");
}

TEST(HfConfigTest, ReadsLinearScaling) {
  const HfConfig config = Parse(ConfigWith(R"("rope_scaling": {"type": "linear", "factor": 4})")).value();
  EXPECT_EQ(std::get<LinearScaling>(config.rope.scaling).factor, 4);
  EXPECT_EQ(config.max_positions, 512U);
}

YarnScaling YarnOf(const std::string& keys) {
  return std::get<YarnScaling>(Parse(ConfigWith(keys)).value().rope.scaling);
}

TEST(HfConfigTest, ReadsYarnWithItsDefaults) {
  const YarnScaling yarn = YarnOf(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})");
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_max_positions, 512);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_EQ(yarn.bounds, YarnBounds::kWholeElements);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 0.1 * std::log(4) + 1);
}

TEST(HfConfigTest, ReadsAllOfYarn) {
  const std::string keys = R"("rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 64,
                              "beta_fast": 16, "beta_slow": 2, "truncate": false)";
  const YarnScaling yarn = YarnOf(R"("rope_parameters": {"attention_factor": 1.5, )" + keys + "}");
  EXPECT_EQ(yarn.original_max_positions, 64);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 2);
  EXPECT_EQ(yarn.bounds, YarnBounds::kExact);
  EXPECT_EQ(yarn.attention_factor, 1.5);
  const YarnScaling weighed = YarnOf(R"("rope_parameters": {"mscale": 0.7, "mscale_all_dim": 1.2, )" + keys + "}");
  EXPECT_DOUBLE_EQ(weighed.attention_factor, (0.07 * std::log(8) + 1) / (0.12 * std::log(8) + 1));
}

TEST(HfConfigTest, AnOriginalContextAtTheTopCountsBeforeTheOneInside) {
  EXPECT_EQ(YarnOf(R"("original_max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn", "factor": 2,
                      "original_max_position_embeddings": 64})")
                .original_max_positions,
            128);
}

TEST(HfConfigTest, YarnsContextIsTheStretchedOneWhereThatIsLonger) {
  const auto positions = [](const std::string& factor) {
    return Parse(ConfigWith(R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 256,
                               "factor": )" +
                            factor + "}"))
        ->max_positions;
  };
  EXPECT_EQ(positions("8"), 2048U);
  EXPECT_EQ(positions("1.5"), 512U);
  EXPECT_EQ(positions("1e30"), kMaxPositions);
}

TEST(HfConfigTest, ReadsBiasesWhereTheArchitectureHasThem) {
  const HfConfig llama = Parse(ConfigWith(R"("attention_bias": true, "mlp_bias": true)")).value();
  EXPECT_EQ(llama.qkv_bias, Bias::kBiased);
  EXPECT_EQ(llama.o_bias, Bias::kBiased);
  EXPECT_EQ(llama.mlp_bias, Bias::kBiased);
  const HfConfig qwen3 = Parse(ConfigWith(R"("attention_bias": true)", "Qwen3ForCausalLM")).value();
  EXPECT_EQ(qwen3.qkv_bias, Bias::kBiased);
  EXPECT_EQ(qwen3.o_bias, Bias::kBiased);
  EXPECT_EQ(qwen3.mlp_bias, Bias::kNone);
  EXPECT_EQ(Parse(ConfigWith(R"("attention_bias": true)", "Qwen2ForCausalLM"))->o_bias, Bias::kNone);
  EXPECT_THAT(Complaint(R"("mlp_bias": true)", "Qwen3ForCausalLM"), HasSubstr("mlp_bias: true is not supported"));
  EXPECT_THAT(Complaint(R"("attention_bias": true)", "MistralForCausalLM"), HasSubstr("attention_bias"));
}

TEST(HfConfigTest, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(Complaint("", "GemmaForCausalLM"), HasSubstr("config.json: architectures: 'GemmaForCausalLM'"));
  EXPECT_THAT(Complaint(R"("quantization_config": {"bits": 4})"), HasSubstr("quantization_config"));
  EXPECT_THAT(Complaint(R"("hidden_act": "gelu")"), HasSubstr("hidden_act: 'gelu'"));
  EXPECT_THAT(Complaint(R"("layer_types": ["full_attention", "chunked_attention"])"), HasSubstr("layer_types"));
}

TEST(HfConfigTest, RopeThatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(Complaint(R"("partial_rotary_factor": 0.5)"), HasSubstr("config.json: partial_rotary_factor: is 0.5"));
  EXPECT_THAT(Complaint(R"("rope_parameters": {"partial_rotary_factor": 0.25})"),
              HasSubstr("rope_parameters.partial_rotary_factor: is 0.25"));
  EXPECT_EQ(Complaint(R"("rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 1.0})"), "");
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "longrope", "factor": 4.0})"),
              HasSubstr("rope_scaling.rope_type: 'longrope'"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"factor": 4.0})"), HasSubstr("rope_scaling.rope_type: is missing"));
  EXPECT_THAT(Complaint(R"("rope_parameters": {"factor": 4.0})"), HasSubstr("rope_parameters.rope_type: is missing"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "yarn", "type": "linear", "factor": 4.0})"),
              HasSubstr("rope_scaling.type: 'linear' and rope_type, 'yarn', contradict"));
  EXPECT_THAT(Complaint(R"("rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {}})"),
              HasSubstr("rope_parameters.full_attention: parameters that differ between layers"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "finetuned": true})"),
              HasSubstr("rope_scaling.finetuned: is not known for rope_type 'yarn'"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "linear", "factor": 4.0, "beta_fast": 2})"),
              HasSubstr("rope_scaling.beta_fast: is not known for rope_type 'linear'"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"type": "default"}, "rope_parameters": {"rope_theta": 1e6})"),
              HasSubstr("rope_scaling"));
}

TEST(HfConfigTest, AThetaInsideCountsBeforeTheOneAtTheTop) {
  EXPECT_EQ(Parse(ConfigWith(R"("rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e6})"))->rope.theta, 1e6);
  EXPECT_EQ(
      Parse(ConfigWith(R"("rope_theta": 5e5, "rope_scaling": {"type": "default", "rope_theta": 1e6})"))->rope.theta,
      1e6);
  EXPECT_EQ(Parse(ConfigWith(R"("rope_theta": 5e5, "rope_parameters": {"rope_type": "default"})"))->rope.theta, 5e5);
}

// The window that a model with two layers has; 0 for none.
std::uint32_t WindowOf(const std::string& keys, const std::string& architecture) {
  return Parse(ConfigWith(keys, architecture)).value().sliding_window.value_or(0);
}

TEST(HfConfigTest, MistralsWindowIsTheOneThatStandsThere) {
  EXPECT_EQ(WindowOf(R"("sliding_window": 256)", "MistralForCausalLM"), 256U);
  EXPECT_EQ(WindowOf(R"("sliding_window": null)", "MistralForCausalLM"), 0U);
  EXPECT_EQ(WindowOf("", "MistralForCausalLM"), 4096U);
  EXPECT_EQ(WindowOf("", "LlamaForCausalLM"), 0U);
  EXPECT_EQ(WindowOf(R"("sliding_window": 256)", "LlamaForCausalLM"), 256U);
}

TEST(HfConfigTest, QwensWindowCountsIfItIsUsedAndALayerHasIt) {
  for (const char* qwen : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const std::string used = R"("use_sliding_window": true, "sliding_window": 256)";
    EXPECT_EQ(WindowOf(R"("sliding_window": 256)", qwen), 0U);
    EXPECT_EQ(WindowOf(R"("use_sliding_window": false, "sliding_window": 256)", qwen), 0U);
    EXPECT_EQ(WindowOf(used, qwen), 0U);  // from layer 28 on by default
    EXPECT_EQ(WindowOf(used + R"(, "max_window_layers": 2)", qwen), 0U);
    EXPECT_EQ(WindowOf(used + R"(, "max_window_layers": 1)", qwen), 256U);
    EXPECT_EQ(WindowOf(used + R"(, "layer_types": ["full_attention", "sliding_attention"])", qwen), 256U);
    EXPECT_EQ(WindowOf(used + R"(, "max_window_layers": 1, "layer_types": ["full_attention", "full_attention"])", qwen),
              0U);
    EXPECT_EQ(WindowOf(R"("use_sliding_window": true, "max_window_layers": 1)", qwen), 4096U);
    EXPECT_THAT(Complaint(R"("layer_types": ["sliding_attention"], "sliding_window": 256)", qwen),
                HasSubstr("layer_types"));
  }
}

TEST(HfConfigTest, AWindowIsServedInContextsThatFitIntoIt) {
  const HfConfig config = Parse(ConfigWith(R"("sliding_window": 256)", "MistralForCausalLM")).value();
  EXPECT_TRUE(CheckSlidingWindow(config, 256).ok());
  const auto longer = CheckSlidingWindow(config, 257);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().field, "sliding_window");
  EXPECT_THAT(longer.error().message, HasSubstr("--max-context-tokens of at most 256"));
}

TEST(HfConfigTest, WrongValuesAreNamed) {
  EXPECT_THAT(Complaint(R"("vocab_size": "many")"), HasSubstr("vocab_size: must be an integer"));
  EXPECT_THAT(Complaint(R"("vocab_size": -1)"), HasSubstr("vocab_size: must be an integer"));
  EXPECT_THAT(Complaint(R"("vocab_size": 4294967296)"), HasSubstr("vocab_size: must be an integer"));
  EXPECT_THAT(Complaint(R"("hidden_size": 1000000)"), HasSubstr("hidden_size: is 1000000"));
  EXPECT_THAT(Complaint(R"("num_hidden_layers": 0)"), HasSubstr("num_hidden_layers: must not be 0"));
  EXPECT_THAT(Complaint(R"("num_key_value_heads": 3)"), HasSubstr("num_key_value_heads: is 3, must divide"));
  EXPECT_THAT(Complaint(R"("num_key_value_heads": 0)"), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(Complaint(R"("head_dim": 7)"), HasSubstr("head_dim: 7"));
  EXPECT_THAT(Complaint(R"("num_attention_heads": 7)"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(Complaint(R"("rms_norm_eps": 0)"), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(Complaint(R"("rope_theta": -5)"), HasSubstr("rope_theta"));
  EXPECT_THAT(Complaint(R"("tie_word_embeddings": "yes")"), HasSubstr("tie_word_embeddings: must be true or false"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0})"),
              HasSubstr("rope_scaling.low_freq_factor"));
  EXPECT_THAT(Parse("{}").error().ToString(), HasSubstr("architectures"));
  EXPECT_THAT(Parse("[]").error().ToString(), HasSubstr("config.json: must hold a JSON object"));
  EXPECT_THAT(Parse(R"({"architectures": ["LlamaForCausalLM"]})").error().ToString(),
              HasSubstr("vocab_size: is missing"));
}

TEST(HfConfigTest, EveryTruncationIsAnError) {
  const std::string whole = ConfigWith("");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto config = Parse(whole.substr(0, size));
    ASSERT_FALSE(config.ok()) << size;
    EXPECT_EQ(config.error().field, "config.json");
  }
}

class SmallFilesTest : public testing::Test {
 protected:
  Result<GenerationConfig> Generation(const std::string& text) {
    directory_.Write("generation_config.json", text);
    const JsonFile config = JsonFile::Parse(R"({"eos_token_id": 9})", "config.json").value();
    return LoadGenerationConfig(directory_.path(), config.root(), 100);
  }
  Result<ChatFormat> Chat(const std::string& text) {
    directory_.Write("tokenizer_config.json", text);
    return LoadChatFormat(directory_.path());
  }

  TemporaryDirectory directory_;
};

TEST_F(SmallFilesTest, StopTokensAreThoseOfBothFiles) {
  EXPECT_THAT(Generation(R"({"eos_token_id": 5})")->stop_tokens, ElementsAre(5, 9));
  EXPECT_THAT(Generation(R"({"eos_token_id": [7, 5, 7, 9]})")->stop_tokens, ElementsAre(7, 5, 9));
  EXPECT_THAT(Generation("{}")->stop_tokens, ElementsAre(9));
  EXPECT_THAT(Generation(R"({"eos_token_id": null})")->stop_tokens, ElementsAre(9));
  EXPECT_THAT(Generation(R"({"eos_token_id": -1})")->stop_tokens, ElementsAre(9));
  EXPECT_THAT(Generation(R"({"eos_token_id": 5.0})")->stop_tokens, ElementsAre(5, 9));
}

TEST_F(SmallFilesTest, StopTokensOfATextModelWithinAnotherCount) {
  const JsonFile config = JsonFile::Parse(R"({"text_config": {"eos_token_id": [3, 4]}})", "config.json").value();
  EXPECT_THAT(LoadGenerationConfig(directory_.path(), config.root(), 100)->stop_tokens, ElementsAre(3, 4));
}

TEST_F(SmallFilesTest, TopKIsACountInAnyFormOrNone) {
  const std::map<std::string, std::uint32_t> cases{{"-1", 0},    {"0", 0},    {"50", 50},
                                                   {"50.0", 50}, {"-1.0", 0}, {"null", 0}};
  for (const auto& [text, top_k] : cases) {
    const auto config = Generation(R"({"top_k": )" + text + "}");
    ASSERT_TRUE(config.ok()) << config.error().ToString();
    EXPECT_EQ(config->sampling.top_k, top_k) << text;
  }
  EXPECT_THAT(Generation(R"({"top_k": -2})").error().ToString(), HasSubstr("top_k"));
}

TEST_F(SmallFilesTest, SamplingDefaultsAreRead) {
  const auto config = Generation(R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05,
                                     "repetition_penalty": 1.05})")
                          .value();
  EXPECT_FLOAT_EQ(config.sampling.temperature, 0.6F);
  EXPECT_FLOAT_EQ(config.sampling.top_p, 0.95F);
  EXPECT_EQ(config.sampling.top_k, 20U);
  EXPECT_FLOAT_EQ(config.sampling.min_p, 0.05F);
  EXPECT_FLOAT_EQ(config.sampling.repetition_penalty, 1.05F);
}

TEST_F(SmallFilesTest, WithoutSamplingTheTemperatureIsZeroWhateverElseIsThere) {
  const auto config =
      Generation(R"({"do_sample": false, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.05})").value();
  EXPECT_EQ(config.sampling.temperature, 0);
  EXPECT_FLOAT_EQ(config.sampling.repetition_penalty, 1.05F);
  EXPECT_FLOAT_EQ(Generation(R"({"do_sample": true, "temperature": 0.6})")->sampling.temperature, 0.6F);
  EXPECT_EQ(Generation(R"({"temperature": 0.6, "top_p": 0.0})")->sampling.temperature, 0);
}

TEST_F(SmallFilesTest, BadGenerationValuesAreNamed) {
  for (const auto& [text, key] :
       std::map<std::string, std::string>{{R"({"eos_token_id": 100})", "eos_token_id"},
                                          {R"({"eos_token_id": "x"})", "eos_token_id"},
                                          {R"({"eos_token_id": [1, -1]})", "eos_token_id"},
                                          {R"({"temperature": -1})", "temperature"},
                                          {R"({"top_p": -0.5})", "top_p"},
                                          {R"({"min_p": 2})", "min_p"},
                                          {R"({"repetition_penalty": 0})", "repetition_penalty"},
                                          {R"({"do_sample": "no"})", "do_sample"},
                                          {R"({"top_k": 1.5})", "top_k"}}) {
    const auto config = Generation(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_THAT(config.error().ToString(), HasSubstr("generation_config.json: " + key));
  }
}

TEST_F(SmallFilesTest, TokensAreTextOrObjects) {
  const auto chat = Chat(R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>"})").value();
  EXPECT_EQ(chat.bos_token, "<s>");
  EXPECT_EQ(chat.eos_token, "</s>");
  EXPECT_EQ(chat.chat_template, "");
  EXPECT_EQ(Chat(R"({"bos_token": null})")->bos_token, "");
  EXPECT_THAT(Chat(R"({"bos_token": 7})").error().ToString(), HasSubstr("bos_token"));
}

TEST_F(SmallFilesTest, AnEndTokenThatTheConfigDoesNotSayIsThatOfTheMap) {
  directory_.Write("special_tokens_map.json", R"({"eos_token": {"content": "<e>"}})");
  EXPECT_EQ(Chat("{}")->eos_token, "<e>");
  EXPECT_EQ(Chat(R"({"eos_token": "</s>"})")->eos_token, "</s>");
}

TEST_F(SmallFilesTest, TheTemplateIsAStringOrTheOneNamedDefaultAndAFileGoesFirst) {
  EXPECT_EQ(Chat(R"({"chat_template": "x"})")->chat_template, "x");
  EXPECT_EQ(Chat(R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                       {"name": "default", "template": "d"}]})")
                ->chat_template,
            "d");
  EXPECT_THAT(Chat(R"({"chat_template": [{"name": "rag", "template": "t"}]})").error().ToString(),
              HasSubstr("chat_template"));
  directory_.Write("chat_template.jinja", "from the file");
  EXPECT_EQ(Chat(R"({"chat_template": "x"})")->chat_template, "from the file");
}

TEST_F(SmallFilesTest, OfSeveralTemplatesRequestsGetTheRightOne) {
  directory_.Write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain\n"},
                             {"name": "tool_use", "template": "  with {{ tools[0] }}  \n"},
                             {"name": "rag", "template": "\nfound\n\n"}]})");
  const auto rendered = [&](std::string_view name, std::string_view context) {
    const Result<ChatFormat> chat = LoadChatFormat(directory_.path(), name);
    if (!chat.ok()) return chat.error().ToString();
    const auto parsed = ChatTemplate::Parse(chat->combined_template, "test").value();
    const Result<std::string> text = parsed->Render(jinja::FromJson(context, "context").value(), {});
    return text.ok() ? *text : text.error().ToString();
  };
  EXPECT_EQ(rendered("", "{}"), "plain");
  EXPECT_EQ(rendered("", R"({"tools": null})"), "plain");
  EXPECT_EQ(rendered("", R"({"tools": ["t"]})"), "  with t  ");
  EXPECT_EQ(rendered("", R"({"tools": ["t"], "chat_template": "default"})"), "plain");
  EXPECT_EQ(rendered("", R"({"chat_template": "rag"})"), "\nfound\n");
  EXPECT_THAT(rendered("", R"({"chat_template": "other"})"), HasSubstr("there are: default, tool_use, rag"));
  EXPECT_EQ(rendered("rag", R"({"tools": ["t"]})"), "\nfound\n");
  EXPECT_EQ(rendered("rag", R"({"chat_template": "tool_use", "tools": ["t"]})"), "  with t  ");
  EXPECT_THAT(rendered("other", "{}"), HasSubstr("it has: default, tool_use, rag"));
}

TEST_F(SmallFilesTest, AdditionalTemplatesAreFilesWithTheirNames) {
  std::filesystem::create_directory(directory_.path() / "additional_chat_templates");
  directory_.Write("additional_chat_templates/tool_use.jinja", "tools");
  directory_.Write("additional_chat_templates/readme.md", "none");
  directory_.Write("chat_template.jinja", "plain");
  const ChatFormat chat = Chat(R"({"chat_template": [{"name": "rag", "template": "replaced by the file"}]})").value();
  EXPECT_EQ(chat.chat_template, "plain");
  EXPECT_THAT(chat.combined_template, HasSubstr("elif tools %}\ntools"));
  EXPECT_THAT(chat.combined_template, Not(HasSubstr("replaced")));
  directory_.Write("additional_chat_templates/it's.jinja", "x");
  EXPECT_THAT(Chat("{}").error().ToString(), HasSubstr("it's.jinja"));
}

}  // namespace
}  // namespace roost::worker

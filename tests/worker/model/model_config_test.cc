// config.json and the small files around the weights: what they mean, and what is refused by name.
#include <gmock/gmock.h>

#include "tests/worker/model/model_directory.h"
#include "worker/model/generation_config.h"
#include "worker/model/hf_config.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_FALSE(config.rope.llama3);
  EXPECT_EQ(config.tie, EmbeddingTie::kUntied);
  EXPECT_EQ(config.qkv_bias, QkvBias::kNone);
  EXPECT_EQ(config.qk_norm, QkNorm::kNone);
}

TEST(HfConfigTest, ArchitecturesDifferInBiasesNormsAndHeads) {
  EXPECT_EQ(Parse(ConfigWith("", "Qwen2ForCausalLM"))->qkv_bias, QkvBias::kBiased);
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
    ASSERT_TRUE(config.rope.llama3);
    EXPECT_EQ(config.rope.llama3->factor, 8);
    EXPECT_EQ(config.rope.llama3->original_max_positions, 8192);
  }
  EXPECT_EQ(Complaint(R"("rope_scaling": {"type": "default"})"), "");
}

TEST(HfConfigTest, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(Complaint("", "GemmaForCausalLM"), HasSubstr("config.json: architectures: 'GemmaForCausalLM'"));
  EXPECT_THAT(Complaint(R"("quantization_config": {"bits": 4})"), HasSubstr("quantization_config"));
  EXPECT_THAT(Complaint(R"("hidden_act": "gelu")"), HasSubstr("hidden_act: 'gelu'"));
  EXPECT_THAT(Complaint(R"("attention_bias": true)"), HasSubstr("attention_bias"));
  EXPECT_THAT(Complaint(R"("mlp_bias": true)"), HasSubstr("mlp_bias"));
  EXPECT_THAT(Complaint(R"("partial_rotary_factor": 0.5)"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})"),
              HasSubstr("rope_scaling.rope_type"));
  EXPECT_THAT(Complaint(R"("rope_scaling": {"type": "linear"})"), HasSubstr("'linear'"));
  EXPECT_THAT(Complaint(R"("layer_types": ["full_attention", "sliding_attention"])"), HasSubstr("layer_types"));
}

TEST(HfConfigTest, ASlidingWindowIsRefusedWhereItWouldHideSomething) {
  EXPECT_THAT(Complaint(R"("sliding_window": 256)", "MistralForCausalLM"), HasSubstr("sliding_window"));
  EXPECT_EQ(Complaint(R"("sliding_window": 512)", "MistralForCausalLM"), "");
  EXPECT_EQ(Complaint(R"("sliding_window": null)", "MistralForCausalLM"), "");
  EXPECT_EQ(Complaint(R"("sliding_window": 256, "use_sliding_window": false)", "Qwen2ForCausalLM"), "");
  EXPECT_THAT(Complaint(R"("sliding_window": 256, "use_sliding_window": true)", "Qwen2ForCausalLM"),
              HasSubstr("sliding_window"));
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

TEST_F(SmallFilesTest, StopTokensAreOneOrSeveralAndElseTheConfigs) {
  EXPECT_THAT(Generation(R"({"eos_token_id": 5})")->stop_tokens, ElementsAre(5));
  EXPECT_THAT(Generation(R"({"eos_token_id": [7, 5, 7]})")->stop_tokens, ElementsAre(7, 5));
  EXPECT_THAT(Generation("{}")->stop_tokens, ElementsAre(9));
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

TEST_F(SmallFilesTest, BadGenerationValuesAreNamed) {
  for (const auto& [text, key] :
       std::map<std::string, std::string>{{R"({"eos_token_id": 100})", "eos_token_id"},
                                          {R"({"eos_token_id": "x"})", "eos_token_id"},
                                          {R"({"eos_token_id": [1, -1]})", "eos_token_id"},
                                          {R"({"temperature": -1})", "temperature"},
                                          {R"({"top_p": 0})", "top_p"},
                                          {R"({"min_p": 2})", "min_p"},
                                          {R"({"repetition_penalty": 0})", "repetition_penalty"},
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

}  // namespace
}  // namespace roost::worker

// GGUF files that the test writes, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/json/json_read.h"
#include "common/text/tokenizer.h"
#include "tests/support/source_dir.h"
#include "tests/worker/model/model_directory.h"
#include "worker/model/loading/model_text.h"

namespace roost::worker {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Bytes(T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  return {bytes.begin(), bytes.end()};
}

std::string Text(std::string_view text) { return Bytes<std::uint64_t>(text.size()) + std::string(text); }

class GgufTest : public ::testing::Test {
 protected:
  void Add(std::string_view key, std::uint32_t type, const std::string& value) {
    entries_ += Text(key) + Bytes(type) + value;
    ++count_;
  }
  void AddText(std::string_view key, std::string_view value) { Add(key, 8, Text(value)); }
  void AddNumber(std::string_view key, std::uint32_t value) { Add(key, 4, Bytes(value)); }
  void AddFlag(std::string_view key, bool value) { Add(key, 7, Bytes<std::uint8_t>(value ? 1 : 0)); }
  void AddTexts(std::string_view key, const std::vector<std::string>& texts) {
    std::string value = Bytes<std::uint32_t>(8) + Bytes<std::uint64_t>(texts.size());
    for (const std::string& text : texts) value += Text(text);
    Add(key, 9, value);
  }
  void AddNumbers(std::string_view key, const std::vector<std::int32_t>& numbers) {
    std::string value = Bytes<std::uint32_t>(5) + Bytes<std::uint64_t>(numbers.size());
    for (const std::int32_t number : numbers) value += Bytes(number);
    Add(key, 9, value);
  }

  // The demo model's, as llama.cpp's converter writes it.
  void AddDemo(std::string_view pre = "qwen2") {
    std::ifstream file(Demo() / "tokenizer.json");
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    const json::Document tokenizer(source);
    std::vector<std::string> tokens(2048);
    std::vector<std::int32_t> types(2048, 1);
    const json::Object vocab = *json::At<json::Object>(tokenizer.root(), "/model/vocab");
    for (const auto& [token, id] : vocab) tokens[std::uint64_t{id}] = std::string(token);
    for (const json::Element added : json::ElementsAt(tokenizer.root(), "added_tokens")) {
      const std::uint32_t id = *json::At<std::uint32_t>(added, "id");
      tokens[id] = std::string(*json::At<std::string_view>(added, "content"));
      types[id] = 3;
    }
    std::vector<std::string> merges;
    for (const json::Element merge : json::ElementsAt(tokenizer.root(), "/model/merges")) {
      if (merge.is_string()) {
        merges.emplace_back(std::string_view(merge));
      } else {
        merges.push_back(std::string(*json::At<std::string_view>(merge, "/0")) + " " +
                         std::string(*json::At<std::string_view>(merge, "/1")));
      }
    }
    AddText("general.architecture", "qwen3");
    AddNumber("general.file_type", 15);
    AddNumber("qwen3.context_length", 4096);
    Add("qwen3.rope.freq_base", 6, Bytes(10000.0F));
    AddText("tokenizer.ggml.model", "gpt2");
    AddText("tokenizer.ggml.pre", pre);
    AddTexts("tokenizer.ggml.tokens", tokens);
    AddNumbers("tokenizer.ggml.token_type", types);
    AddTexts("tokenizer.ggml.merges", merges);
    AddNumber("tokenizer.ggml.eos_token_id", 2047);
  }
  static std::filesystem::path Demo() {
    return std::filesystem::path(roost::testing_support::SourceDir()) / "deploy/demo-model";
  }

  std::string Whole() const {
    return "GGUF" + Bytes<std::uint32_t>(3) + Bytes<std::uint64_t>(0) + Bytes(count_) + entries_;
  }
  Result<DescribedModel> Describe(const std::string& bytes, std::string_view template_name = {}) {
    const std::filesystem::path path = folder_.path() / "model.gguf";
    std::ofstream(path, std::ios::binary) << bytes;
    return DescribeGguf(path, template_name);
  }
  Result<DescribedModel> Describe() { return Describe(Whole()); }

  std::string entries_;
  std::uint64_t count_ = 0;
  TemporaryDirectory folder_;
};

TEST_F(GgufTest, TheSameIdsAsFromTheModelsFolder) {
  AddDemo();
  AddText("tokenizer.chat_template", "{{ messages[0].content }}");
  const Result<DescribedModel> model = Describe();
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  EXPECT_EQ(model->text.vocab_size, 2048U);
  EXPECT_EQ(model->text.eos_token, "<|im_end|>");
  EXPECT_EQ(model->text.bos_token, "");
  EXPECT_EQ(model->text.chat_template, "{{ messages[0].content }}");
  EXPECT_FALSE(model->has_layer_groups);
  const auto own = Tokenizer::FromJson(model->text.tokenizer_json, "model.gguf");
  ASSERT_TRUE(own.ok()) << own.error().ToString();
  const auto folder = Tokenizer::FromFile(Demo() / "tokenizer.json");
  ASSERT_TRUE(folder.ok());
  for (const std::string_view text : {"<|im_start|>user\nWho goes there? 1234 it's  a test\n\n<|im_end|>",
                                      "\xC3\xA9\xF0\x9F\xA6\x89  x", "e\xCC\x81"}) {
    EXPECT_EQ(*(*own)->Encode(text, SpecialTokens::kAdd), *(*folder)->Encode(text, SpecialTokens::kAdd)) << text;
  }
  EXPECT_TRUE((*own)->IsSpecial(2047));
}

TEST_F(GgufTest, ABeginningTokenIsAddedWhereTheFileSaysSo) {
  AddDemo("llama-bpe");
  AddNumber("tokenizer.ggml.bos_token_id", 2045);
  const Result<DescribedModel> model = Describe();
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->text.bos_token, "<|endoftext|>");
  const auto tokenizer = *Tokenizer::FromJson(model->text.tokenizer_json, "");
  EXPECT_EQ((*tokenizer->Encode(std::string_view("a"), SpecialTokens::kAdd)).front(), 2045U);
  AddFlag("tokenizer.ggml.add_bos_token", false);
  const auto without = *Tokenizer::FromJson(Describe()->text.tokenizer_json, "");
  EXPECT_EQ((*without->Encode(std::string_view("a"), SpecialTokens::kAdd)).size(), 1U);
}

TEST_F(GgufTest, AllRulesAreReadByTheTokenizer) {
  for (const char* const pre :
       {"gpt-2", "smollm", "llama-bpe", "glm4", "chatglm-bpe", "qwen2", "qwen35", "gpt-4o", "tekken"}) {
    entries_.clear();
    count_ = 0;
    AddDemo(pre);
    const Result<DescribedModel> model = Describe();
    ASSERT_TRUE(model.ok()) << pre;
    const auto tokenizer = Tokenizer::FromJson(model->text.tokenizer_json, pre);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
    const auto tokens =
        (*tokenizer)->Encode(std::string_view("It's 2026, e.g. HELLO World\n\n x"), SpecialTokens::kOmit);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ((*tokenizer)->Decode(*tokens), "It's 2026, e.g. HELLO World\n\n x") << pre;
  }
}

TEST_F(GgufTest, OtherTokenizersAreRefusedByName) {
  AddText("tokenizer.ggml.model", "llama");
  Result<DescribedModel> model = Describe();
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().field, "tokenizer.ggml.model");
  EXPECT_THAT(model.error().message, HasSubstr("'llama'"));
  entries_.clear();
  count_ = 0;
  AddDemo("kimi-k2");
  model = Describe();
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().field, "tokenizer.ggml.pre");
  EXPECT_THAT(model.error().message, HasSubstr("'kimi-k2'"));
}

TEST_F(GgufTest, OtherWeightsAreAnotherModel) {
  AddDemo();
  const std::string before = Describe()->fingerprint;
  EXPECT_EQ(Describe()->fingerprint, before);
  AddNumber("qwen3.block_count", 6);
  EXPECT_NE(Describe()->fingerprint, before);
}

TEST_F(GgufTest, WindowsAndStatesAreSeen) {
  AddDemo();
  AddNumber("qwen3.attention.sliding_window", 0);
  EXPECT_FALSE(Describe()->has_layer_groups);
  AddNumber("qwen3.ssm.state_size", 16);
  EXPECT_TRUE(Describe()->has_layer_groups);
}

TEST_F(GgufTest, TemplatesHaveNames) {
  AddDemo();
  AddText("tokenizer.chat_template", "plain");
  AddText("tokenizer.chat_template.tool_use", "tools");
  EXPECT_THAT(Describe()->text.chat_template, HasSubstr("tools"));
  EXPECT_THAT(Describe(Whole(), "tool_use")->text.chat_template, HasSubstr("{%+ else %}\ntools"));
  EXPECT_FALSE(Describe(Whole(), "none").ok());
}

// ---- what is damaged ----

TEST_F(GgufTest, AFileThatEndsAnywhereIsAnError) {
  AddText("tokenizer.ggml.model", "gpt2");
  AddText("tokenizer.ggml.pre", "qwen2");
  AddTexts("tokenizer.ggml.tokens", {"a", "b"});
  AddNumbers("tokenizer.ggml.token_type", {1, 1});
  const std::string whole = Whole();
  EXPECT_TRUE(Describe(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Result<DescribedModel> model = Describe(whole.substr(0, size));
    ASSERT_FALSE(model.ok()) << size;
    EXPECT_THAT(model.error().ToString(), HasSubstr("model.gguf"));
  }
}

TEST_F(GgufTest, SizesBeyondAnyFileAreErrors) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60U;
  Add("x", 8, Bytes(kHuge));
  EXPECT_FALSE(Describe().ok());
  entries_.clear();
  count_ = 1;
  entries_ = Text("x") + Bytes<std::uint32_t>(9) + Bytes<std::uint32_t>(4) + Bytes(kHuge);
  EXPECT_FALSE(Describe().ok());
  entries_ = Text("x") + Bytes<std::uint32_t>(9) + Bytes<std::uint32_t>(9) + Bytes<std::uint64_t>(1);
  EXPECT_FALSE(Describe().ok());
  entries_ = Text("x") + Bytes<std::uint32_t>(77) + Bytes(kHuge);
  EXPECT_FALSE(Describe().ok());
  entries_.clear();
  count_ = kHuge;
  EXPECT_FALSE(Describe().ok());
  EXPECT_FALSE(Describe("PK34").ok());
  EXPECT_FALSE(DescribeGguf("/nowhere/model.gguf", {}).ok());
}

TEST_F(GgufTest, ListsOfOtherLengthsAreErrors) {
  AddText("tokenizer.ggml.model", "gpt2");
  AddText("tokenizer.ggml.pre", "qwen2");
  EXPECT_FALSE(Describe().ok());
  AddTexts("tokenizer.ggml.tokens", {"a", "b"});
  AddNumbers("tokenizer.ggml.token_type", {1});
  EXPECT_FALSE(Describe().ok());
}

}  // namespace
}  // namespace roost::worker

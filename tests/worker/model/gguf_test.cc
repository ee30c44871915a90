// GGUF files that the test writes, byte by byte.
#include <fmt/format.h>
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
#include "tests/support/shared_data.h"
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
  void AddFractions(std::string_view key, const std::vector<float>& fractions) {
    std::string value = Bytes<std::uint32_t>(6) + Bytes<std::uint64_t>(fractions.size());
    for (const float fraction : fractions) value += Bytes(fraction);
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
  // A tokenizer of SentencePiece, as llama.cpp's converter writes it. Bytes are pieces too.
  void AddPieces(std::vector<std::string> tokens, std::vector<float> scores, std::vector<std::int32_t> types) {
    for (int byte = 0; byte < 256; ++byte) {
      tokens.push_back(fmt::format("<0x{:02X}>", byte));
      scores.push_back(0);
      types.push_back(6);
    }
    AddText("general.architecture", "llama");
    AddText("tokenizer.ggml.model", "llama");
    AddText("tokenizer.ggml.pre", "default");
    AddTexts("tokenizer.ggml.tokens", tokens);
    AddFractions("tokenizer.ggml.scores", scores);
    AddNumbers("tokenizer.ggml.token_type", types);
    AddNumber("tokenizer.ggml.bos_token_id", 1);
    AddNumber("tokenizer.ggml.eos_token_id", 2);
    AddNumber("tokenizer.ggml.unknown_token_id", 0);
  }
  void AddFewPieces() {
    AddPieces({"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a", "ba", "<turn>", "\u2581ab"},
              {0, 0, 0, -100, -101, -102, -3, -2, -1, 0, -4}, {2, 3, 3, 1, 1, 1, 1, 1, 1, 4, 1});
  }
  std::vector<TokenId> Ids(std::string_view text, SpecialTokens special = SpecialTokens::kOmit) {
    const Result<DescribedModel> model = Describe();
    EXPECT_TRUE(model.ok()) << model.error().ToString();
    return *(*Tokenizer::FromJson(model->text.tokenizer_json, "model.gguf"))->Encode(text, special);
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
    return DescribeGguf(path, {.name = template_name});
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

// By hand, as SentencePiece merges: always what gives the piece of the highest score, from the left where two are
// equal.
TEST_F(GgufTest, PiecesAreMergedByTheirScores) {
  AddFewPieces();
  EXPECT_EQ(Ids("ab"), (std::vector<TokenId>{10}));     // _ab by _a; never by ab, whose score is lower
  EXPECT_EQ(Ids("aba"), (std::vector<TokenId>{7, 8}));  // ba goes before _a
  EXPECT_EQ(Ids("bab b"), (std::vector<TokenId>{3, 8, 5, 3, 5}));
  EXPECT_EQ(Ids("a", SpecialTokens::kAdd), (std::vector<TokenId>{1, 7}));
  EXPECT_EQ(Ids("\xC3\xA9"), (std::vector<TokenId>{3, 11 + 0xC3, 11 + 0xA9}));
}

TEST_F(GgufTest, ASpaceIsPutBeforeEachPartOfATextUnlessTheFileSaysOtherwise) {
  AddFewPieces();
  EXPECT_EQ(Ids("<turn>a</s>a"), (std::vector<TokenId>{9, 7, 2, 7}));
  const auto tokenizer = *Tokenizer::FromJson(Describe()->text.tokenizer_json, "");
  EXPECT_EQ(tokenizer->Decode(Ids("ab a")), "ab a");
  AddFlag("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(Ids("<turn>a a"), (std::vector<TokenId>{9, 4, 7}));
}

// Gemma's runs of spaces. Control tokens are never made of a text's pieces.
TEST_F(GgufTest, WhatAUserHasDefinedIsMergedToo) {
  AddPieces({"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581\u2581", "\u2581a", "aa"}, {0, 0, 0, -9, -9, 0, -1, 0},
            {2, 3, 3, 1, 1, 4, 1, 3});
  AddFlag("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(Ids("a  a"), (std::vector<TokenId>{4, 5, 4}));
  EXPECT_EQ(Ids("a   a"), (std::vector<TokenId>{4, 5, 6}));
  EXPECT_EQ(Ids(" aa"), (std::vector<TokenId>{3, 7}));  // the added token itself
  EXPECT_EQ(Ids("a a"), (std::vector<TokenId>{4, 6}));
}

TEST_F(GgufTest, SpecialTokensOfPhi3TakeTheSpacesBehindThem) {
  AddFewPieces();
  EXPECT_EQ(Ids("<turn>  a"), (std::vector<TokenId>{9, 3, 3, 7}));
  AddText("general.name", "Phi-3 mini");
  EXPECT_EQ(Ids("<turn>  a"), (std::vector<TokenId>{9, 7}));
}

// The ids of the library that defines tokenizer.json, for the tokenizer of Llama 2. Its scores count down with the ids,
// but for runs of spaces, which were added to it.
TEST_F(GgufTest, TheSameIdsAsFromTheFileThatWasConverted) {
  const std::filesystem::path shared = testing_support::SharedDir() / "tokenizers";
  ROOST_SKIP_WITHOUT(shared);
  constexpr std::uint32_t kFirstPiece = 259;
  std::ifstream file(shared / "llama-spm.tokenizer.json");
  const std::string source((std::istreambuf_iterator<char>(file)), {});
  const json::Document whole(source);
  std::vector<std::string> tokens(32'000);
  std::vector<float> scores(tokens.size());
  std::vector<std::int32_t> types(tokens.size(), 1);
  const json::Object vocab = *json::At<json::Object>(whole.root(), "/model/vocab");
  for (const auto& [token, id] : vocab) tokens[std::uint64_t{id}] = std::string(token);
  for (std::uint32_t id = 0; id < tokens.size(); ++id) {
    scores[id] = id < kFirstPiece ? 0 : -static_cast<float>(id - kFirstPiece);
    types[id] = id < 3 ? 3 : id < kFirstPiece ? 6 : 1;
    const bool is_spaces = tokens[id].size() > 3 && tokens[id].find_first_not_of("\u2581") == std::string::npos;
    if (is_spaces) scores[id] = -1e9F;
  }
  types[0] = 1;  // a text with "<unk>" is no unknown token there
  AddText("tokenizer.ggml.model", "llama");
  AddTexts("tokenizer.ggml.tokens", tokens);
  AddFractions("tokenizer.ggml.scores", scores);
  AddNumbers("tokenizer.ggml.token_type", types);
  AddNumber("tokenizer.ggml.bos_token_id", 1);
  const Result<DescribedModel> model = Describe();
  ASSERT_TRUE(model.ok()) << model.error().ToString();
  const auto tokenizer = *Tokenizer::FromJson(model->text.tokenizer_json, "model.gguf");
  std::ifstream cases(shared / "llama-spm.cases.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(cases, line); ++count) {
    const json::Document expected(line);
    const std::string text(*json::At<std::string_view>(expected.root(), "text"));
    std::vector<TokenId> ids;
    for (const json::Element id : json::ElementsAt(expected.root(), "ids_with_special")) {
      ids.push_back(static_cast<TokenId>(std::uint64_t{id}));
    }
    EXPECT_EQ(*tokenizer->Encode(text, SpecialTokens::kAdd), ids) << text;
  }
  EXPECT_GE(count, 200U);
}

TEST_F(GgufTest, OtherTokenizersAreRefusedByName) {
  AddText("tokenizer.ggml.model", "bert");
  Result<DescribedModel> model = Describe();
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().field, "tokenizer.ggml.model");
  EXPECT_THAT(model.error().message, HasSubstr("'bert'"));
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

TEST_F(GgufTest, AnotherTemplateIsAnotherModel) {
  AddDemo();
  AddText("tokenizer.chat_template", "plain");
  const std::string before = Describe()->fingerprint;
  const std::filesystem::path path = folder_.path() / "model.gguf";
  EXPECT_EQ(DescribeGguf(path, {.source = "plain"})->fingerprint, before);
  const Result<DescribedModel> other = DescribeGguf(path, {.source = "other"});
  EXPECT_EQ(other->text.chat_template, "other");
  EXPECT_NE(other->fingerprint, before);
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

TEST_F(GgufTest, PiecesWithoutScoresAreErrors) {
  AddText("tokenizer.ggml.model", "llama");
  AddTexts("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_EQ(Describe().error().field, "tokenizer.ggml.scores");
  AddFractions("tokenizer.ggml.scores", {0});
  EXPECT_EQ(Describe().error().field, "tokenizer.ggml.scores");
  AddFractions("tokenizer.ggml.scores", {0, 0});
  EXPECT_TRUE(Describe().ok());
  AddNumber("tokenizer.ggml.unknown_token_id", 2);
  EXPECT_EQ(Describe().error().field, "tokenizer.ggml.unknown_token_id");
  AddNumber("tokenizer.ggml.unknown_token_id", 1);
  AddTexts("tokenizer.ggml.tokens", {std::string(2000, 'a'), ""});
  EXPECT_EQ(Describe().error().field, "tokenizer.ggml.tokens");
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

// Real vocabularies against the reference library's answers.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/tokenizer.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

struct Case {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<TokenId> ids_with_special;
  std::string decoded;
};

std::vector<TokenId> IdsOf(simdjson::dom::element array) {
  std::vector<TokenId> ids;
  for (const std::uint64_t id : array) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

std::vector<Case> ReadCases(const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  std::vector<Case> cases;
  for (const simdjson::dom::element line : parser.load_many(path.string())) {
    cases.push_back({std::string(std::string_view(line["text"])), IdsOf(line["ids"]), IdsOf(line["ids_with_special"]),
                     std::string(std::string_view(line["decoded"]))});
  }
  return cases;
}

class TokenizerCasesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = testing_support::SharedDir() / "tokenizers";
    ROOST_SKIP_WITHOUT(folder);
    Result<std::shared_ptr<const Tokenizer>> loaded = Tokenizer::FromFile(folder / (GetParam() + ".tokenizer.json"));
    ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
    tokenizer_ = *loaded;
    cases_ = ReadCases(folder / (GetParam() + ".cases.jsonl"));
    ASSERT_GE(cases_.size(), 200U);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Case> cases_;
};

TEST_P(TokenizerCasesTest, EncodesAsTheReference) {
  for (const Case& expected : cases_) {
    EXPECT_EQ(*tokenizer_->Encode(expected.text, SpecialTokens::kOmit), expected.ids) << expected.text;
    EXPECT_EQ(*tokenizer_->Encode(expected.text, SpecialTokens::kAdd), expected.ids_with_special) << expected.text;
  }
}

TEST_P(TokenizerCasesTest, NoTokenStandsForMoreBytesThanIsSaid) {
  const std::optional<std::size_t> most = tokenizer_->most_bytes_per_token();
  ASSERT_TRUE(most.has_value());
  for (const Case& expected : cases_) EXPECT_LE(expected.text.size(), *most * expected.ids.size()) << expected.text;
}

TEST_P(TokenizerCasesTest, DecodesAsTheReference) {
  for (const Case& expected : cases_) EXPECT_EQ(tokenizer_->Decode(expected.ids), expected.decoded);
}

TEST_P(TokenizerCasesTest, StreamsWhatDecodeMakes) {
  for (const Case& expected : cases_) {
    TokenStream stream(tokenizer_, SpecialTokenOutput::kShow);
    std::string text;
    for (const TokenId id : expected.ids_with_special) {
      const std::string piece = stream.Push(id);
      ASSERT_TRUE(IsValidUtf8(piece));
      text += piece;
    }
    text += stream.Finish();
    EXPECT_EQ(text, tokenizer_->Decode(expected.ids_with_special));
  }
}

TEST_P(TokenizerCasesTest, EveryTokenKnowsItsId) {
  std::size_t count = 0;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto text = tokenizer_->TextOf(id);
    if (!text) continue;
    ++count;
    EXPECT_EQ(tokenizer_->IdOf(*text), id);
  }
  EXPECT_GE(count, 32000U);
}

INSTANTIATE_TEST_SUITE_P(RealVocabularies, TokenizerCasesTest, ::testing::Values("gpt-2", "cl100k", "llama-spm"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace roost

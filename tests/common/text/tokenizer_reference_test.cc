// Small tokenizers for features that the real vocabularies here do not use, against the reference library's answers.
// make_fixtures.py makes testdata/.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/regex/regex.h"
#include "common/text/tokenizer.h"
#include "common/text/unicode.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_dir.h"

namespace roost {
namespace {

using simdjson::dom::element;

const std::filesystem::path kTestdata =
    std::filesystem::path(testing_support::SourceDir()) / "tests/common/text/testdata";

// Calls `check` with each line of a file of JSON lines.
template <typename Check>
void ForEachLine(const char* file, Check check) {
  simdjson::dom::parser parser;
  std::size_t count = 0;
  for (const element line : parser.load_many((kTestdata / file).string(), 4U << 20U)) {
    check(line);
    ++count;
  }
  EXPECT_GE(count, 10U) << file;
}

std::vector<TokenId> Ids(element array) {
  std::vector<TokenId> ids;
  for (const std::uint64_t id : array) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

std::string_view Text(element string) { return string; }

// The member `key`, or `fallback` if it was left out because it is equal to that.
element MemberOr(element object, std::string_view key, std::string_view fallback) {
  element member;
  return object[key].get(member) == simdjson::SUCCESS ? member : element(object[fallback]);
}

std::string Streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<TokenId>& ids) {
  TokenStream stream(tokenizer, SpecialTokenOutput::kShow);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = stream.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
  }
  return text + stream.Finish();
}

void CheckEncodes(const Tokenizer& tokenizer, element expected) {
  const std::string_view text = Text(expected["text"]);
  EXPECT_EQ(*tokenizer.Encode(text, SpecialTokens::kOmit), Ids(expected["ids"])) << text;
  if (const auto most = tokenizer.most_bytes_per_token()) {
    EXPECT_LE(text.size(), *most * tokenizer.Encode(text, SpecialTokens::kOmit)->size()) << text;
  }
  EXPECT_EQ(*tokenizer.Encode(text, SpecialTokens::kAdd), Ids(MemberOr(expected, "ids_with_special", "ids"))) << text;
  EXPECT_EQ(*tokenizer.Encode(PromptText{text, {}}, SpecialTokens::kOmit), Ids(MemberOr(expected, "plain_ids", "ids")))
      << text;
}

TEST(TokenizerReferenceTest, EveryFamilyEncodesAndDecodesAsTheReference) {
  ForEachLine("tokenizers.jsonl", [](element line) {
    SCOPED_TRACE(Text(line["name"]));
    const auto tokenizer = Tokenizer::FromJson(simdjson::to_string(element(line["tokenizer"])), "fixture");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().ToString();
    for (const element expected : line["cases"]) {
      const bool is_text = expected["text"].error() == simdjson::SUCCESS;
      if (is_text) CheckEncodes(**tokenizer, expected);
      const std::vector<TokenId> ids = Ids(expected[is_text ? "ids" : "random_ids"]);
      EXPECT_EQ((*tokenizer)->Decode(ids), Text(MemberOr(expected, "decoded", "text")))
          << ::testing::PrintToString(ids);
      EXPECT_EQ(Streamed(*tokenizer, ids), (*tokenizer)->Decode(ids)) << ::testing::PrintToString(ids);
    }
  });
}

std::vector<text::TextRange> FindAll(const text::Regex& regex, std::string_view subject) {
  std::string stand_in;
  const std::string_view matched = text::ReplaceNewCodePoints(subject, stand_in) ? stand_in : subject;
  text::RegexScratch scratch;
  std::vector<text::TextRange> ranges;
  EXPECT_TRUE(regex.FindAll(matched, scratch, ranges).ok());
  return ranges;
}

TEST(TokenizerReferenceTest, PatternsMatchAsTheReference) {
  ForEachLine("regex.jsonl", [](element line) {
    const std::string_view pattern = Text(line["pattern"]);
    const std::string_view subject = Text(line["subject"]);
    const Result<text::Regex> regex = text::Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().ToString();
    std::vector<std::string_view> matches;
    for (const text::TextRange& range : FindAll(*regex, subject)) {
      if (range.begin != range.end) matches.push_back(subject.substr(range.begin, range.end - range.begin));
    }
    std::vector<std::string_view> expected;
    for (const element match : line["matches"]) expected.push_back(Text(match));
    EXPECT_EQ(matches, expected) << pattern;
  });
}

TEST(TokenizerReferenceTest, CharacterClassesAgreeOnEveryCodePoint) {
  constexpr char32_t kEnd = testing_support::kSanitized ? 0x20000 : 0x110000;
  ForEachLine("classes.jsonl", [](element line) {
    const std::string_view name = Text(line["class"]);
    // Alternating gaps and runs.
    std::vector<bool> expected(0x110000, false);
    std::size_t position = 0;
    bool is_member = false;
    for (const std::uint64_t length : line["runs"]) {
      for (std::uint64_t i = 0; i < length; ++i) expected.at(position++) = is_member;
      is_member = !is_member;
    }
    const Result<text::Regex> regex = text::Regex::Compile(name);
    ASSERT_TRUE(regex.ok()) << regex.error().ToString();
    std::string all;
    std::vector<bool> actual(0x110000, false);
    for (char32_t c = 0; c < kEnd; ++c) {
      if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, all);
    }
    for (const text::TextRange& range : FindAll(*regex, all)) {
      actual.at(DecodeUtf8(std::string_view(all).substr(range.begin))->value) = true;
    }
    for (std::size_t c = 0; c < kEnd; ++c) {
      if (actual[c] != expected[c]) ADD_FAILURE() << name << " U+" << std::hex << c;
    }
  });
}

TEST(TokenizerReferenceTest, NormalFormsAreTheReferences) {
  ForEachLine("normal_forms.jsonl", [](element line) {
    const std::pair<const char*, text::NormalForm> forms[] = {{"NFC", text::NormalForm::kC},
                                                              {"NFD", text::NormalForm::kD},
                                                              {"NFKC", text::NormalForm::kKc},
                                                              {"NFKD", text::NormalForm::kKd}};
    for (const auto& [name, form] : forms) {
      std::string text(Text(line["text"]));
      EXPECT_TRUE(text::Normalize(form, std::string::npos, text));
      EXPECT_EQ(text, Text(line[name])) << name;
    }
  });
}

}  // namespace
}  // namespace roost

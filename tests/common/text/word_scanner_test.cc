// The word scanners against the regular expressions that they implement, and whole tokenizers with a scanner against
// the same ones with the expression.
#include "common/text/word_scanner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/base/utf8.h"
#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/byte_vocabulary.h"
#include "tests/support/hostile_texts.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_data.h"
#include "tests/support/word_oracle.h"

namespace roost {
namespace {

using testing_support::FileParts;
using testing_support::kSanitized;
using testing_support::WordOracle;

std::string Contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Units that the patterns distinguish, in random order.
std::string RandomUnits(Rng& rng) {
  static constexpr std::array<std::string_view, 48> kUnits = {
      "a",      "b",      "Ab",      "AB",     "é",      "É",      "ß",        "ǅ",         "ʰ",   "ª",
      "漢",     "ა",      "e\u0301", "\u0301", "\u0903", "\u20dd", "1",        "22",        "१",   "½",
      "Ⅷ",      "²",      " ",       " ",      "  ",     "\n",     "\n",       "\r\n",      "\r",  "\t",
      "\u00a0", "\u0085", "\u2028",  "\u3000", "\u180e", "\u200b", "'",        "'s",        "'LL", "'ſ",
      "'re",    "'v",     ".",       "/",      "//",     "_",      "👩\u200d👧", "\U0001E030"};
  std::string text;
  for (std::uint64_t i = rng.Below(24); i > 0; --i) text += kUnits[rng.Below(kUnits.size())];
  return text;
}

std::string RandomCharacters(Rng& rng) {
  constexpr std::array<std::uint64_t, 4> kEnds = {0x80, 0x250, 0x3000, 0x110000};
  std::string text;
  for (std::uint64_t i = rng.Below(40); i > 0; --i) {
    const auto c = static_cast<char32_t>(rng.Below(kEnds[rng.Below(kEnds.size())]));
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, text);
  }
  return text;
}

class WordScannerTest : public testing::Test {
 protected:
  void ExpectSameWords(std::string_view text) {
    for (const WordOracle& oracle : oracles_) {
      const std::vector<text::TextRange> scanned = oracle.Scanned(text);
      const std::vector<text::TextRange> matched = oracle.Matched(text, scratch_);
      if (scanned == matched) continue;
      const auto [one, other] = std::mismatch(scanned.begin(), scanned.end(), matched.begin(), matched.end());
      const std::size_t begin = one != scanned.end() ? one->begin : matched.back().begin;
      ADD_FAILURE() << oracle.name() << " at byte " << begin << " of "
                    << testing::PrintToString(std::string(text.substr(begin, 40)));
    }
  }

  std::vector<WordOracle> oracles_ = testing_support::WordOracles();
  text::RegexScratch scratch_;
};

TEST_F(WordScannerTest, KnowsItsPatternsByTheirExactText) {
  std::vector<std::string_view> names;
  for (const WordOracle& oracle : oracles_) names.push_back(oracle.name());
  EXPECT_EQ(names, (std::vector<std::string_view>{"gpt2", "llama3", "qwen2", "o200k"}));
  EXPECT_FALSE(text::WordScanner::ForPattern(R"(\s+)").has_value());
  EXPECT_FALSE(text::WordScanner::ForPattern("").has_value());
}

// Every assigned code point, and some of the others, before and after letters, numbers, white space and itself.
TEST_F(WordScannerTest, CutsAroundEveryCodePointAsThePatterns) {
  constexpr char32_t kStep = kSanitized ? 7 : 1;
  constexpr char32_t kRareStep = 97;
  std::string text;
  for (char32_t c = 0; c < 0x110000;) {
    if (c < 0xD800 || c > 0xDFFF) {
      std::string character;
      AppendUtf8(c, character);
      for (const std::string_view before : {"a", "A", "'", " ", "1"}) text.append(before).append(character);
      text.append(character).append("b\n").append(character).append("  ");
    }
    c += c < 0x32000 || (c >= 0xE0000 && c < 0xE0200) ? kStep : kRareStep;
  }
  ExpectSameWords(text);
}

TEST_F(WordScannerTest, CutsRandomTextsAsThePatterns) {
  constexpr int kTexts = kSanitized ? 2'000 : 40'000;
  Rng rng(1);
  for (int i = 0; i < kTexts && !HasFailure(); ++i) {
    ExpectSameWords(i % 2 == 0 ? RandomUnits(rng) : RandomCharacters(rng));
  }
}

TEST_F(WordScannerTest, CutsHostileTextsAsThePatterns) {
  for (const auto& [name, text] : testing_support::HostileTexts(20'000)) {
    SCOPED_TRACE(name);
    ExpectSameWords(text);
  }
}

TEST_F(WordScannerTest, CutsRealTextsAsThePatterns) {
  const std::filesystem::path shared = testing_support::SharedDir();
  ROOST_SKIP_WITHOUT(shared / "corpus");
  ROOST_SKIP_WITHOUT(shared / "tokenizers");
  ExpectSameWords(Contents(shared / "corpus/tinyshakespeare.txt"));
  simdjson::dom::parser parser;
  for (const std::string_view name : {"cl100k", "gpt-2", "llama-spm"}) {
    const std::filesystem::path cases = shared / fmt::format("tokenizers/{}.cases.jsonl", name);
    for (const simdjson::dom::element line : parser.load_many(cases.string())) {
      ExpectSameWords(std::string_view(line["text"]));
    }
  }
}

// ---- whole tokenizers ----

// A model with every byte, and some merges that overlap.
std::string ByteLevelModel(std::string_view more) {
  std::string vocab = testing_support::ByteVocabularyJson();
  vocab += R"(,"ab":256,"aba":257,"ba":258,"bb":259,"Ġa":260,"ĠĠ":261,"ĠĠĠĠ":262,"Ã©":263,"baba":264)";
  return fmt::format(R"({{"type":"BPE",{}"vocab":{{{}}},"merges":["b a","a b","ab a","b b","Ġ a","Ġ Ġ","ĠĠ ĠĠ","Ã ©",)"
                     R"("ba ba"]}})",
                     more, vocab);
}

std::shared_ptr<const Tokenizer> WithPattern(std::string_view pattern, std::string_view more) {
  std::string quoted;
  AppendJsonString(pattern, quoted);
  FileParts parts;
  parts.model = ByteLevelModel(more);
  parts.decoder = R"({"type":"ByteLevel"})";
  parts.pre_tokenizer = fmt::format(
      R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated",)"
      R"("invert":false}},{{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}}]}})",
      quoted);
  return testing_support::Load(parts);
}

// An equivalent pattern that has no scanner.
std::string Disguised(std::string_view pattern) { return fmt::format("(?:{})", pattern); }

void ExpectSameIds(const Tokenizer& one, const Tokenizer& other, std::string_view text) {
  const auto ids = one.Encode(text, SpecialTokens::kOmit);
  const auto expected = other.Encode(text, SpecialTokens::kOmit);
  ASSERT_TRUE(ids.ok() && expected.ok());
  EXPECT_TRUE(*ids == *expected) << testing::PrintToString(std::string(text.substr(0, 60)));
}

TEST(WordScannerTokenizerTest, GivesTheIdsOfThePatternsTokenizer) {
  constexpr int kTexts = kSanitized ? 200 : 4'000;
  for (const auto& [name, pattern] : testing_support::kTokenizerPatterns) {
    if (!text::WordScanner::ForPattern(pattern)) continue;
    for (const std::string_view more : {"", R"("ignore_merges":true,)"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, more));
      const auto scanned = WithPattern(pattern, more);
      const auto matched = WithPattern(Disguised(pattern), more);
      Rng rng(1);
      for (int i = 0; i < kTexts && !testing::Test::HasFailure(); ++i) {
        std::string text = RandomUnits(rng);
        for (std::uint64_t k = rng.Below(60); k > 0; --k) text += rng.Below(2) == 0 ? 'a' : 'b';
        ExpectSameIds(*scanned, *matched, text + RandomCharacters(rng));
      }
      for (const auto& [what, text] : testing_support::HostileTexts(20'000)) ExpectSameIds(*scanned, *matched, text);
    }
  }
}

TEST(WordScannerTokenizerTest, ARealVocabularyGivesTheIdsOfThePatternsTokenizer) {
  const std::filesystem::path shared = testing_support::SharedDir();
  ROOST_SKIP_WITHOUT(shared / "corpus");
  ROOST_SKIP_WITHOUT(shared / "tokenizers");
  const std::string file = Contents(shared / "tokenizers/cl100k.tokenizer.json");
  const auto replaced = [](std::string text, std::string_view what, std::string_view by) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
  };
  constexpr std::string_view kFront = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|)";
  const std::string merging = replaced(file, R"("ignore_merges": true)", R"("ignore_merges": false)");
  const std::string corpus = Contents(shared / "corpus/tinyshakespeare.txt");
  for (const std::string& json : {file, merging}) {
    const auto scanned = Tokenizer::FromJson(json, "scanned").value();
    const auto matched =
        Tokenizer::FromJson(replaced(json, kFront, fmt::format("(?:{})|", kFront.substr(0, kFront.size() - 1))),
                            "matched")
            .value();
    ExpectSameIds(*scanned, *matched, corpus);
    Rng rng(1);
    for (int i = 0; i < 1'000; ++i) ExpectSameIds(*scanned, *matched, RandomUnits(rng) + RandomCharacters(rng));
    for (const auto& [name, text] : testing_support::HostileTexts(50'000)) ExpectSameIds(*scanned, *matched, text);
  }
}

}  // namespace
}  // namespace roost

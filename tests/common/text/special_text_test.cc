// Special tokens in texts of which the template wrote only some bytes.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/text/tokenizer.h"
#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/shared_data.h"

namespace roost {
namespace {

using testing_support::FileParts;
using testing_support::Load;

using TokenIds = std::vector<TokenId>;

struct Added {
  std::string_view content;
  bool special = true;
  bool strip_left = false;
  bool strip_right = false;
  bool single_word = false;
  bool normalized = false;
};

constexpr TokenId kFirstAdded = 100;

// Each character of `alphabet` is a token, with ids from 0 on; the tokens of `added` have ids from kFirstAdded on.
FileParts PartsOf(const std::vector<std::string_view>& alphabet, const std::vector<Added>& added) {
  JsonWriter model;
  model.BeginObject().Key("type").String("BPE").Key("merges").BeginArray().EndArray().Key("vocab").BeginObject();
  TokenId id = 0;
  for (const std::string_view character : alphabet) model.Key(character).Number(id++);
  for (; id < kFirstAdded; ++id) model.Key(fmt::format("unused {}", id)).Number(id);
  model.EndObject().EndObject();
  JsonWriter tokens;
  tokens.BeginArray();
  for (const Added& token : added) {
    tokens.BeginObject().Key("id").Number(id++).Key("content").String(token.content);
    tokens.Key("single_word").Bool(token.single_word).Key("normalized").Bool(token.normalized);
    tokens.Key("lstrip").Bool(token.strip_left).Key("rstrip").Bool(token.strip_right);
    tokens.Key("special").Bool(token.special).EndObject();
  }
  tokens.EndArray();
  FileParts parts;
  parts.model = model.Take();
  parts.added_tokens = tokens.Take();
  return parts;
}

// A text in pieces; the template wrote some of them.
class Pieces {
 public:
  Pieces& Written(std::string_view text) {
    if (text.empty()) return *this;
    if (!written_.empty() && written_.back().end == bytes_.size()) {
      written_.back().end += text.size();
    } else {
      written_.push_back({bytes_.size(), bytes_.size() + text.size()});
    }
    bytes_ += text;
    return *this;
  }
  Pieces& Given(std::string_view text) {
    bytes_ += text;
    return *this;
  }

  [[nodiscard]] PromptText text() const { return {bytes_, written_}; }

 private:
  std::string bytes_;
  std::vector<ByteRange> written_;
};

TokenIds Encode(const Tokenizer& tokenizer, const Pieces& pieces) {
  return *tokenizer.Encode(pieces.text(), SpecialTokens::kOmit);
}

TEST(SpecialTextTest, ASpecialTokenIsOneOnlyWhereAllItsBytesWereWritten) {
  const auto tokenizer = Load(PartsOf({"<", "x", ">"}, {{"<x>"}}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x>")), (TokenIds{100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("<x>")), (TokenIds{0, 1, 2}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x>").Given("<x>").Written("<x>")), (TokenIds{100, 0, 1, 2, 100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x").Given(">")), (TokenIds{0, 1, 2}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("<").Written("x>")), (TokenIds{0, 1, 2}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<").Given("x").Written(">")), (TokenIds{0, 1, 2}));
}

TEST(SpecialTextTest, GivenTextTakesNoTokenFromTheTemplate) {
  const auto tokenizer = Load(PartsOf({"<", "x", ">"}, {{"<x>"}, {"><x>"}, {"<x><x>"}}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given(">").Written("<x>")), (TokenIds{2, 100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x>").Given("<x>")), (TokenIds{100, 0, 1, 2}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x><x>")), (TokenIds{102}));
}

TEST(SpecialTextTest, AddedTokensThatAreNotSpecialStandAnywhere) {
  const auto tokenizer = Load(PartsOf({"<", "x", ">"}, {{.content = "<x", .special = false}, {"<x>"}}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x>")), (TokenIds{101}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("<x>")), (TokenIds{100, 2}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x").Given(">")), (TokenIds{100, 2}));
}

TEST(SpecialTextTest, TokensThatTakeSpaceTakeAClientsToo) {
  const Added both{.content = "<x>", .strip_left = true, .strip_right = true};
  const auto tokenizer = Load(PartsOf({"<", "x", ">", " "}, {both}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("x ").Written("<x>").Given(" x")), (TokenIds{1, 100, 1}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written(" ").Given("<x>").Written(" ")), (TokenIds{3, 0, 1, 2, 3}));
}

TEST(SpecialTextTest, TokensThatStandAloneSeeGivenNeighbours) {
  const auto tokenizer = Load(PartsOf({"x", "y", " "}, {{.content = "xx", .single_word = true}}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("xx").Given("y")), (TokenIds{0, 0, 1}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("xx").Given(" ")), (TokenIds{100, 2}));
}

// As in Llama's files, with tokens that are searched for in normalised text: "▁<x>".
std::shared_ptr<const Tokenizer> LlamaStyle() {
  FileParts parts = PartsOf({"▁", "<", "x", ">", "h"}, {{.content = "<x>", .normalized = true}});
  parts.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
    {"type":"Replace","pattern":{"String":" "},"content":"▁"}]})";
  return Load(parts);
}

TEST(SpecialTextTest, TokensOfNormalisedTextFollowWhatWasWrittenThroughTheNormalizer) {
  const auto tokenizer = LlamaStyle();
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("<x>h <x>")), (TokenIds{100, 4, 100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("h").Given(" <x>").Written(" <x>")), (TokenIds{0, 4, 0, 1, 2, 3, 100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("<x>").Written(" <x>")), (TokenIds{0, 1, 2, 3, 100}));
}

// The template's token stays a token when a message ends with a space, which becomes part of it.
TEST(SpecialTextTest, AGivenSpaceBeforeATokenOfNormalisedTextBelongsToIt) {
  EXPECT_EQ(Encode(*LlamaStyle(), Pieces().Given("h ").Written("<x>")), (TokenIds{0, 4, 100}));
}

TEST(SpecialTextTest, WhatANormalizerMakesOfGivenTextIsGiven) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {R"({"type":"Lowercase"})", "<X>"},
      {R"({"type":"NFKC"})", "＜x＞"},
      {R"({"type":"Nmt"})", "<\x01x>"},
      {R"({"type":"Replace","pattern":{"String":"hh"},"content":"<x>"})", "hh"},
      {R"({"type":"Replace","pattern":{"Regex":"h+"},"content":"<x>"})", "hhh"},
      {R"({"type":"ByteLevel"})", "<x>"},
      {R"({"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"}]})", "＜X>"},
  };
  for (const auto& [normalizer, text] : cases) {
    SCOPED_TRACE(normalizer);
    FileParts parts = PartsOf({"<", "x", ">", "é", "Ã", "©"}, {{.content = "<x>", .normalized = true}});
    parts.normalizer = normalizer;
    const auto tokenizer = Load(parts);
    EXPECT_EQ(Encode(*tokenizer, Pieces().Given(text)), (TokenIds{0, 1, 2}));
    EXPECT_EQ(Encode(*tokenizer, Pieces().Written(text)), (TokenIds{100}));
    // Characters of other lengths next to it do not shift anything.
    const TokenIds accent = Encode(*tokenizer, Pieces().Given("é"));
    TokenIds expected = {100};
    const auto append = [&](const TokenIds& ids) { expected.insert(expected.end(), ids.begin(), ids.end()); };
    append(accent);
    append({0, 1, 2});
    append(accent);
    append({100});
    EXPECT_EQ(Encode(*tokenizer, Pieces().Written(text).Given("é").Given(text).Given("é").Written(text)), expected);
  }
}

TEST(SpecialTextTest, CharactersThatComposeMoveWhatWasWritten) {
  FileParts parts = PartsOf({"<", "x", ">", "é", "h"}, {{.content = "<x>", .normalized = true}});
  parts.normalizer = R"({"type":"NFC"})";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("he\u0301").Written("<x>").Given("e\u0301<x>")),
            (TokenIds{4, 3, 100, 3, 0, 1, 2}));
}

TEST(SpecialTextTest, StrippedTextMovesWhatWasWritten) {
  FileParts parts = PartsOf({"<", "x", ">", " "}, {{.content = "<x>", .normalized = true}});
  parts.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("   ").Written("<x>").Given("  ")), (TokenIds{100}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Written("   ").Given("<x>").Written("  ")), (TokenIds{0, 1, 2}));
}

TEST(SpecialTextTest, IllFormedUtf8MovesWhatWasWritten) {
  const auto tokenizer = Load(PartsOf({"<", "x", ">", "\uFFFD"}, {{"<x>"}}));
  EXPECT_EQ(Encode(*tokenizer, Pieces().Given("\xFF\xFF").Written("<x>").Given("\xFF<x>")),
            (TokenIds{3, 3, 100, 3, 0, 1, 2}));
}

// ---- against a model ----

// The right answer, computed letter by letter.
TokenIds NaiveEncode(PromptText text, std::string_view alphabet, const std::vector<Added>& added) {
  std::vector<bool> written(text.bytes.size());
  for (const ByteRange& range : text.written) {
    for (std::size_t i = range.begin; i < range.end; ++i) written[i] = true;
  }
  TokenIds ids;
  for (std::size_t i = 0; i < text.bytes.size();) {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < added.size(); ++k) {
      const std::string_view token = added[k].content;
      if (text.bytes.substr(i, token.size()) != token) continue;
      const auto begin = written.begin() + static_cast<std::ptrdiff_t>(i);
      const bool is_written =
          std::all_of(begin, begin + static_cast<std::ptrdiff_t>(token.size()), [](bool bit) { return bit; });
      if (added[k].special && !is_written) continue;
      if (!best || token.size() > added[*best].content.size()) best = k;
    }
    if (best) ids.push_back(kFirstAdded + static_cast<TokenId>(*best));
    if (!best) ids.push_back(static_cast<TokenId>(alphabet.find(text.bytes[i])));
    i += best ? added[*best].content.size() : 1;
  }
  return ids;
}

TEST(SpecialTextTest, RandomTextsAndBordersGiveWhatTheModelGives) {
  constexpr std::string_view kAlphabet = "<ab>";
  std::vector<Added> added = {{"<a>"},
                              {"<ab>"},
                              {"ab"},
                              {.content = "b>", .special = false},
                              {"><"},
                              {"<a><b>"},
                              {.content = "<b", .special = false}};
  Rng rng(20261124);
  for (const bool normalized : {false, true}) {
    for (Added& token : added) token.normalized = normalized;
    const auto tokenizer = Load(PartsOf({"<", "a", "b", ">"}, added));
    for (int round = 0; round < 20'000; ++round) {
      Pieces pieces;
      const std::uint64_t piece_count = 1 + rng.Below(5);
      for (std::uint64_t piece = 0; piece < piece_count; ++piece) {
        std::string text;
        for (std::uint64_t left = rng.Below(8); left > 0; --left) text += kAlphabet[rng.Below(kAlphabet.size())];
        rng.Below(2) == 0 ? pieces.Written(text) : pieces.Given(text);
      }
      ASSERT_EQ(Encode(*tokenizer, pieces), NaiveEncode(pieces.text(), kAlphabet, added)) << pieces.text().bytes;
    }
  }
}

// ---- real vocabularies ----

class SpecialTextInVocabularyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto folder = testing_support::SharedDir() / "tokenizers";
    ROOST_SKIP_WITHOUT(folder);
    file_ = folder / (GetParam() + ".tokenizer.json");
    tokenizer_ = Tokenizer::FromFile(file_).value();
    simdjson::dom::parser parser;
    for (const simdjson::dom::element token : parser.load(file_.string())["added_tokens"]) {
      if (token["special"].get_bool().value()) specials_.emplace_back(token["content"].get_string().value());
    }
    ASSERT_FALSE(specials_.empty());
    for (const simdjson::dom::element line : parser.load_many((folder / (GetParam() + ".cases.jsonl")).string())) {
      texts_.emplace_back(line["text"].get_string().value());
    }
    ASSERT_GE(texts_.size(), 200U);
  }

  [[nodiscard]] std::size_t SpecialsIn(const TokenIds& ids) const {
    return static_cast<std::size_t>(
        std::count_if(ids.begin(), ids.end(), [this](TokenId id) { return tokenizer_->IsSpecial(id); }));
  }
  [[nodiscard]] bool HasSpecialText(std::string_view text) const {
    return std::any_of(specials_.begin(), specials_.end(),
                       [&](const std::string& special) { return text.find(special) != std::string_view::npos; });
  }

  std::filesystem::path file_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> specials_;
  std::vector<std::string> texts_;
};

TEST_P(SpecialTextInVocabularyTest, GivenTextHoldsNoSpecialTokenAndDecodesToItself) {
  std::string all = "They said";
  for (const std::string& special : specials_) all += special + " and " + special + special;
  const TokenIds ids = Encode(*tokenizer_, Pieces().Given(all));
  EXPECT_EQ(SpecialsIn(ids), 0U);
  EXPECT_EQ(tokenizer_->Decode(ids), all);
  EXPECT_EQ(SpecialsIn(*tokenizer_->Encode(all, SpecialTokens::kOmit)), 3 * specials_.size());
}

// Text by text: if the given parts contain no special tokens, the borders between pieces change nothing.
TEST_P(SpecialTextInVocabularyTest, BordersInTextChangeNothing) {
  Rng rng(7);
  std::size_t compared = 0;
  for (const std::string& text : texts_) {
    if (HasSpecialText(text)) continue;
    Pieces pieces;
    for (std::size_t done = 0; done < text.size();) {
      std::size_t end = std::min<std::size_t>(text.size(), done + 1 + rng.Below(12));
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
      const std::string_view part = std::string_view(text).substr(done, end - done);
      rng.Below(2) == 0 ? pieces.Written(part) : pieces.Given(part);
      if (rng.Below(4) == 0) pieces.Written(specials_[rng.Below(specials_.size())]);
      done = end;
    }
    const auto whole = tokenizer_->Encode(pieces.text().bytes, SpecialTokens::kOmit);
    EXPECT_EQ(Encode(*tokenizer_, pieces), *whole) << text;
    ++compared;
  }
  EXPECT_GE(compared, 150U);
}

INSTANTIATE_TEST_SUITE_P(RealVocabularies, SpecialTextInVocabularyTest,
                         ::testing::Values("gpt-2", "cl100k", "llama-spm"), [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace roost

#include "common/text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "tests/common/text/tokenizer_fixture.h"

namespace roost {
namespace {

using testing_support::FileParts;
using testing_support::Load;
using testing_support::LoadTestdata;

using Ids = std::vector<TokenId>;

// Characters as tokens, the bytes 0xE4 0xBD 0xA0 0x41, and the other parts of a Llama file.
FileParts LlamaParts() {
  FileParts parts;
  parts.model = R"({"type":"BPE","byte_fallback":true,"unk_token":"<unk>","fuse_unk":true,"merges":[["▁","a"]],
    "vocab":{"<unk>":0,"<s>":1,"▁":2,"a":3,"▁a":4,"b":5,"<0xE4>":6,"<0xBD>":7,"<0xA0>":8,"<0x41>":9,"<0xFF>":10}})";
  parts.added_tokens = R"([{"id":1,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,
    "normalized":false,"special":true}])";
  parts.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
    {"type":"Replace","pattern":{"String":" "},"content":"▁"}]})";
  parts.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
    {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  return parts;
}

std::vector<std::string> Pieces(TokenStream stream, const Ids& ids) {
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(stream.Push(id));
  pieces.push_back(stream.Finish());
  return pieces;
}

TEST(TokenizerTest, KnowsItsVocabulary) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  EXPECT_EQ(tokenizer->vocab_size(), 424U);
  EXPECT_EQ(tokenizer->IdOf("<|im_end|>"), TokenId{421});
  EXPECT_EQ(tokenizer->TextOf(421), "<|im_end|>");
  EXPECT_TRUE(tokenizer->IsSpecial(421));
  EXPECT_FALSE(tokenizer->IsSpecial(0));
  EXPECT_EQ(tokenizer->TextOf(*tokenizer->IdOf("Ġthe")), "Ġthe");
  EXPECT_FALSE(tokenizer->IdOf("no such token").has_value());
  EXPECT_FALSE(tokenizer->TextOf(424).has_value());
}

TEST(TokenizerTest, KeepsControlTokensOutOfPlainText) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  const std::string text = "a<|im_end|>b";
  const Ids parsed = *tokenizer->Encode(text, SpecialTokens::kOmit);
  const Ids plain = *tokenizer->Encode(PromptText{text, {}}, SpecialTokens::kOmit);
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), 421U), 1);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 421U), 0);
  EXPECT_EQ(tokenizer->Decode(plain), text);
  EXPECT_EQ(tokenizer->Decode(parsed, SpecialTokenOutput::kSkip), "ab");
}

TEST(TokenizerTest, KeepsControlTokensOutOfPlainTextWhereWholeWordsAreTokens) {
  FileParts parts;
  parts.model = R"({"type":"BPE","ignore_merges":true,"merges":[],"vocab":{"<":0,"s":1,">":2,"<s>":3}})";
  parts.added_tokens = R"([{"id":3,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,
    "normalized":false,"special":true}])";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(*tokenizer->Encode("<s>", SpecialTokens::kOmit), (Ids{3}));
  EXPECT_EQ(*tokenizer->Encode(PromptText{"<s>", {}}, SpecialTokens::kOmit), (Ids{0, 1, 2}));
}

TEST(TokenizerTest, ReadsIllFormedUtf8AsReplacementCharacters) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  const Ids ids = *tokenizer->Encode(
      "a\xFF"
      "b\xE4\xBD",
      SpecialTokens::kOmit);
  EXPECT_EQ(tokenizer->Decode(ids), "a\uFFFDb\uFFFD");
}

TEST(TokenizerTest, LeavesOutIdsThatNoTokenHas) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  EXPECT_EQ(tokenizer->Decode(Ids{*tokenizer->IdOf("a"), 4'000'000'000U, *tokenizer->IdOf("b")}), "ab");
}

TEST(TokenizerTest, RefusesACharacterWithoutTokenWhenTheUnknownTokenIsMissing) {
  FileParts parts;
  parts.model = R"({"type":"BPE","unk_token":"<unk>","merges":[],"vocab":{"a":0}})";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(*tokenizer->Encode("aa", SpecialTokens::kOmit), (Ids{0, 0}));
  const auto encoded = tokenizer->Encode("ab", SpecialTokens::kOmit);
  ASSERT_FALSE(encoded.ok());
  EXPECT_EQ(encoded.error().message, "'b' has no token, and there is no '<unk>'");
}

TEST(TokenizerTest, ReportsAPatternThatNeedsTooManySteps) {
  FileParts parts;
  parts.model = R"({"type":"BPE","merges":[],"vocab":{"a":0,"c":1}})";
  parts.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"(a+)+$"},"behavior":"Isolated","invert":false})";
  const auto tokenizer = Load(parts);
  const auto encoded = tokenizer->Encode(std::string(40, 'a') + "c", SpecialTokens::kOmit);
  ASSERT_FALSE(encoded.ok());
  EXPECT_EQ(encoded.error().code, ErrorCode::kInvalidArgument);
}

// ---- how many bytes a token stands for ----

TEST(MostBytesPerTokenTest, IsTheLongestText) {
  FileParts parts;
  parts.model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abab":3,"ababab":4,"?":5},"unk_token":"?",)"
                R"("merges":["a b","ab ab","abab ab"]})";
  EXPECT_EQ(Load(parts)->most_bytes_per_token(), 6U);
  parts.added_tokens = R"([{"id":6,"content":"<|begin|>","single_word":false,"lstrip":false,"rstrip":false,)"
                       R"("normalized":false,"special":true}])";
  EXPECT_EQ(Load(parts)->most_bytes_per_token(), 9U);
  parts.normalizer = R"({"type":"NFC"})";
  EXPECT_EQ(Load(parts)->most_bytes_per_token(), 81U);
  parts.normalizer = R"({"type":"Replace","pattern":{"String":"xyz"},"content":"a"})";
  EXPECT_EQ(Load(parts)->most_bytes_per_token(), 27U);
}

TEST(MostBytesPerTokenTest, IsNotKnownWhereRulesMayMakeAnyTextShort) {
  FileParts plain;
  plain.model = R"({"type":"BPE","vocab":{"a":0,"b":1,"?":2},"unk_token":"?","merges":[]})";
  ASSERT_TRUE(Load(plain)->most_bytes_per_token().has_value());
  const auto expect_unknown = [&](std::string FileParts::*part, std::string text) {
    FileParts parts = plain;
    parts.*part = std::move(text);
    EXPECT_FALSE(Load(parts)->most_bytes_per_token().has_value()) << parts.*part;
  };
  expect_unknown(&FileParts::model, R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":[]})");
  expect_unknown(&FileParts::model,
                 R"({"type":"BPE","vocab":{"a":0,"?":1},"unk_token":"?","fuse_unk":true,"merges":[]})");
  expect_unknown(&FileParts::normalizer, R"({"type":"Strip","strip_left":true,"strip_right":false})");
  expect_unknown(&FileParts::normalizer, R"({"type":"NFKC"})");
  expect_unknown(&FileParts::normalizer, R"({"type":"Replace","pattern":{"String":"x"},"content":""})");
  expect_unknown(&FileParts::normalizer, R"({"type":"Replace","pattern":{"Regex":"x+"},"content":"x"})");
  expect_unknown(&FileParts::pre_tokenizer, R"({"type":"WhitespaceSplit"})");
  expect_unknown(&FileParts::added_tokens,
                 R"([{"id":3,"content":"<x>","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,)"
                 R"("special":true}])");
}

// U+1FEF becomes an ASCII character; U+0390 is one of three that are written decomposed.
TEST(MostBytesPerTokenTest, HoldsForWhatNormalFormsMakeShortest) {
  FileParts parts;
  parts.model = R"({"type":"BPE","vocab":{"`":0,"?":1},"unk_token":"?","merges":[]})";
  for (const char* form : {R"({"type":"NFC"})", R"({"type":"NFD"})"}) {
    parts.normalizer = form;
    const auto tokenizer = Load(parts);
    for (const std::string character : {"\u1FEF", "\u03B9\u0308\u0301", "\u0390", "\U0002F800", "\u212B"}) {
      std::string text;
      for (int i = 0; i < 100; ++i) text += character;
      const Ids ids = *tokenizer->Encode(text, SpecialTokens::kOmit);
      EXPECT_LE(text.size(), *tokenizer->most_bytes_per_token() * ids.size()) << character;
    }
  }
}

TEST(TokenizerTest, StopsSoonAfterTheMostTokensThatAreAskedFor) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += " word";
  const Ids all = *tokenizer->Encode(text, SpecialTokens::kOmit);
  const auto encode = [&](std::size_t most) { return *tokenizer->Encode(text, SpecialTokens::kOmit, most); };
  const Ids some = encode(100);
  EXPECT_GT(some.size(), 100U);
  EXPECT_LT(some.size(), 110U);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  EXPECT_EQ(encode(all.size()), all);
}

TEST(TokenizerTest, GivesThreadsEqualAnswers) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  const auto run = [&](std::size_t begin) {
    std::vector<Ids> all;
    for (std::size_t i = begin; i < begin + 200; ++i) {
      all.push_back(*tokenizer->Encode(fmt::format("word {} they've {}", i % 50, i % 7), SpecialTokens::kAdd));
    }
    return all;
  };
  const std::vector<Ids> expected = run(0);
  std::vector<std::vector<Ids>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&result, &run] { result = run(0); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(TokenStreamTest, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  // 你 is E4 BD A0, in the byte-level alphabet ä ½ ł.
  const Ids ids = {*tokenizer->IdOf("a"), *tokenizer->IdOf("ä"), *tokenizer->IdOf("½"), *tokenizer->IdOf("ł")};
  EXPECT_EQ(Pieces(TokenStream(tokenizer), ids), (std::vector<std::string>{"a", "", "", "你", ""}));
}

TEST(TokenStreamTest, EndsAnUnfinishedCharacterWithAReplacement) {
  const auto tokenizer = LoadTestdata("gpt2_style.tokenizer.json");
  const Ids ids = {*tokenizer->IdOf("ä"), *tokenizer->IdOf("½"), *tokenizer->IdOf("a"), *tokenizer->IdOf("ä")};
  EXPECT_EQ(Pieces(TokenStream(tokenizer), ids), (std::vector<std::string>{"", "", "\uFFFDa", "", "\uFFFD"}));
}

TEST(TokenStreamTest, ShowsEachCharacterOfARunOfByteTokensAsItIsComplete) {
  const auto tokenizer = Load(LlamaParts());
  EXPECT_EQ(Pieces(TokenStream(tokenizer), {6, 7, 8, 9}), (std::vector<std::string>{"", "", "你", "A", ""}));
}

TEST(TokenStreamTest, ReplacesEachByteThatIsPartOfNoCharacter) {
  const auto tokenizer = Load(LlamaParts());
  EXPECT_EQ(Pieces(TokenStream(tokenizer), {9, 10, 6, 7, 5, 6}),
            (std::vector<std::string>{"A", "\uFFFD", "", "", "\uFFFD\uFFFDb", "", "\uFFFD"}));
}

TEST(TokenStreamTest, DropsTheFirstSpaceOfATextOnly) {
  const auto tokenizer = Load(LlamaParts());
  EXPECT_EQ(Pieces(TokenStream(tokenizer), {2, 4}), (std::vector<std::string>{"", " a", ""}));
  EXPECT_EQ(Pieces(TokenStream(tokenizer, SpecialTokenOutput::kSkip, StreamStart::kContinuation), {4, 4}),
            (std::vector<std::string>{" a", " a", ""}));
}

TEST(TokenStreamTest, HoldsBackWhatIsDroppedAtTheEnd) {
  FileParts parts = LlamaParts();
  parts.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
    {"type":"Fuse"},{"type":"Strip","content":" ","start":0,"stop":2}]})";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(Pieces(TokenStream(tokenizer), {3, 2, 2, 2, 3, 2}),
            (std::vector<std::string>{"a", "", "", " ", "  a", "", ""}));
}

TEST(TokenStreamTest, SkipsSpecialTokensByDefault) {
  const auto tokenizer = Load(LlamaParts());
  EXPECT_EQ(Pieces(TokenStream(tokenizer), {1, 3}), (std::vector<std::string>{"", "a", ""}));
  EXPECT_EQ(Pieces(TokenStream(tokenizer, SpecialTokenOutput::kShow), {1, 3}),
            (std::vector<std::string>{"<s>", "a", ""}));
}

// Texts that take quadratic time if a part is naive: a fraction of a second here, minutes or hours there.
TEST(TokenizerTest, HostileTextsEndSoon) {
  const auto bytes = LoadTestdata("gpt2_style.tokenizer.json");
  FileParts parts = LlamaParts();
  parts.normalizer = R"({"type":"NFC"})";
  const auto words_without_end = Load(parts);
  constexpr std::size_t kBytes = 1U << 18U;
  const auto repeated = [&](std::string_view unit) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    return text;
  };
  // Marks of class 230, then of class 220: canonical ordering moves every one.
  const std::string marks = "a" + repeated("\u0301") + repeated("\u0316");
  for (const std::string& text : {repeated("a"), repeated(" "), repeated(" ") + "a", repeated("😀"), repeated("ab"),
                                  repeated("<|im_"), repeated("\n"), repeated("▁"), marks}) {
    const auto ids = bytes->Encode(text, SpecialTokens::kOmit);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(bytes->Decode(*ids), text);
    EXPECT_TRUE(words_without_end->Encode(text, SpecialTokens::kOmit).ok());
  }
}

TEST(TokenizerTest, ASpaceRunBeforeALetterIsLinearForDeepSeeksPatterns) {
  FileParts parts;
  parts.model = R"({"type":"BPE","merges":[],"vocab":{"a":0," ":1}})";
  parts.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"\\s+$"},"behavior":"Isolated","invert":false})";
  const auto tokenizer = Load(parts);
  EXPECT_EQ(tokenizer->Encode(std::string(1U << 20U, ' ') + "a", SpecialTokens::kOmit)->size(), (1U << 20U) + 1);
}

// ---- merging against the definition: look for the best pair again after each merge ----

struct Rule {
  std::string left;
  std::string right;
};

std::vector<std::string> MergeNaively(std::string_view word, const std::vector<Rule>& rules) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  for (;;) {
    std::size_t best_rule = rules.size();
    std::size_t best_place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (std::size_t rule = 0; rule < best_rule; ++rule) {
        if (symbols[i] != rules[rule].left || symbols[i + 1] != rules[rule].right) continue;
        best_rule = rule;
        best_place = i;
      }
    }
    if (best_rule == rules.size()) return symbols;
    symbols[best_place] += symbols[best_place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

// A random model over the characters a, b and c.
struct RandomModel {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<Rule> rules;

  explicit RandomModel(Rng& rng) {
    while (tokens.size() < 40) {
      const Rule rule{tokens[rng() % tokens.size()], tokens[rng() % tokens.size()]};
      const std::string merged = rule.left + rule.right;
      if (merged.size() > 7 || std::find(tokens.begin(), tokens.end(), merged) != tokens.end()) continue;
      rules.push_back(rule);
      tokens.push_back(merged);
    }
  }

  [[nodiscard]] std::string ToJson() const {
    std::vector<std::string> vocab;
    std::vector<std::string> merges;
    for (const std::string& token : tokens) vocab.push_back(fmt::format("\"{}\":{}", token, vocab.size()));
    for (const Rule& rule : rules) merges.push_back(fmt::format("\"{} {}\"", rule.left, rule.right));
    return fmt::format(R"({{"type":"BPE","vocab":{{{}}},"merges":[{}]}})", fmt::join(vocab, ","),
                       fmt::join(merges, ","));
  }
};

TEST(BpeModelTest, MergesAsTheDefinitionSays) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const RandomModel model(rng);
    FileParts parts;
    parts.model = model.ToJson();
    const auto tokenizer = Load(parts);
    for (int i = 0; i < 50; ++i) {
      std::string word;
      for (std::size_t length = rng() % 60; word.size() < length;) word += static_cast<char>('a' + rng() % 3);
      const Ids ids = *tokenizer->Encode(word, SpecialTokens::kOmit);
      std::vector<std::string> encoded;
      for (const TokenId id : ids) encoded.emplace_back(*tokenizer->TextOf(id));
      ASSERT_EQ(encoded, MergeNaively(word, model.rules)) << word;
    }
  }
}

}  // namespace
}  // namespace roost

// Automata of the library against brute force: a constraint allows few texts, all known, and a token may come next if
// some text begins with the output so far and that token.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {
namespace {

using wire::ConstraintKind;

const TokenTexts kTokens{"",   "a",   "b",   "c",  "ab", "bc",   "abc", "\"",   "{",    "}",    ":",
                         ",",  "{\"", "\":", "1",  "2",  "12",   "\"}", "aa",   "ba",   "true", "tr",
                         "ue", "fal", "se",  "[",  "]",  "null", "é",   "\xC3", "\xA9", " ",    "",
                         "x",  "-",   "0",   "00", "1,", "cab",  "\"a", "a\"",  "\"b",  "b\""};

class GrammarLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGrammarLibrary()) GTEST_SKIP() << "built without xgrammar";
    library_ = OpenGrammarLibrary(kTokens);
    ASSERT_NE(library_, nullptr);
  }

  std::shared_ptr<const CompiledGrammar> Compiled(ConstraintKind kind, const std::string& text) {
    auto compiled = library_->Compile({.kind = kind, .text = text, .field = "f"});
    EXPECT_TRUE(compiled.ok()) << text << ": " << compiled.error().ToString();
    return compiled.ok() ? *compiled : nullptr;
  }
  std::string Refusal(ConstraintKind kind, const std::string& text) {
    const auto compiled = library_->Compile({.kind = kind, .text = text, .field = "f"});
    return compiled.ok() ? "" : compiled.error().message;
  }

  static bool BeginsOne(const std::vector<std::string>& texts, const std::string& begin) {
    return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) { return text.starts_with(begin); });
  }

  // Walks through the automaton at random, and compares every mask.
  void ExpectTexts(const CompiledGrammar& grammar, const std::vector<std::string>& texts, int walk_count) {
    for (int walk = 0; walk < walk_count; ++walk) {
      const std::unique_ptr<Automaton> automaton = grammar.Start();
      std::string written;
      for (int step = 0; step < 40; ++step) {
        std::vector<std::uint32_t> mask(MaskWords(kTokens.size()));
        automaton->FillMask(mask);
        std::vector<TokenId> allowed;
        for (TokenId token = 0; token < kTokens.size(); ++token) {
          const bool is_allowed = (mask[token / 32] >> token % 32 & 1U) != 0;
          ASSERT_EQ(is_allowed, !kTokens[token].empty() && BeginsOne(texts, written + kTokens[token]))
              << "'" << kTokens[token] << "' after '" << written << "'";
          if (is_allowed) allowed.push_back(token);
        }
        const bool is_whole = std::find(texts.begin(), texts.end(), written) != texts.end();
        ASSERT_EQ(automaton->MayEnd(), is_whole) << written;
        if (allowed.empty()) break;
        const TokenId next = allowed[rng_.Below(allowed.size())];
        ASSERT_TRUE(automaton->Accept(next));
        written += kTokens[next];
      }
    }
  }

  Rng rng_{5};
  std::unique_ptr<GrammarLibrary> library_;
};

TEST_F(GrammarLibraryTest, Choices) {
  const auto grammar = Compiled(ConstraintKind::kChoice, R"(["abc","ab","aa","cab","é","true","b\"","x1"])");
  ASSERT_NE(grammar, nullptr);
  ExpectTexts(*grammar, {"abc", "ab", "aa", "cab", "é", "true", "b\"", "x1"}, 40);
}

TEST_F(GrammarLibraryTest, RegularExpressions) {
  std::vector<std::string> texts;
  for (const char* a : {"a", "aa", "ab", "b"}) {
    for (const char* b : {"", "1", "2", "12"}) {
      for (const char* c : {"x", "-", "é"}) texts.push_back(std::string(a) + b + c);
    }
  }
  const auto grammar = Compiled(ConstraintKind::kRegex, "^(?:a[ab]?|b)(1?2?)[x\\-é]$");
  ASSERT_NE(grammar, nullptr);
  ExpectTexts(*grammar, texts, 60);
}

TEST_F(GrammarLibraryTest, Grammars) {
  const auto grammar = Compiled(ConstraintKind::kGrammar, "root ::= pair (\",\" pair)?\npair ::= \"a\" | \"b\" [12]\n");
  ASSERT_NE(grammar, nullptr);
  std::vector<std::string> texts{"a", "b1", "b2"};
  for (const char* first : {"a", "b1", "b2"}) {
    for (const char* second : {"a", "b1", "b2"}) texts.push_back(std::string(first) + "," + second);
  }
  ExpectTexts(*grammar, texts, 60);
}

// The values of an enum are written without white space, so the comparison is complete.
TEST_F(GrammarLibraryTest, SchemasAllowTheirValuesAndNothingElse) {
  const auto grammar = Compiled(ConstraintKind::kJsonSchema, R"({"enum":["a","b",12,true,null,[1,2]]})");
  ASSERT_NE(grammar, nullptr);
  ExpectTexts(*grammar, {"\"a\"", "\"b\"", "12", "true", "null", "[1,2]"}, 60);
}

TEST_F(GrammarLibraryTest, WhatIsNoUtf8IsNotWritten) {
  const auto library =
      OpenGrammarLibrary({"", "\xED", "\xA0", "\x9F", "\x80", "\xED\xA0", "\xE0", "\xC0", "\xF5", "a"});
  const auto compiled = library->Compile({.kind = ConstraintKind::kRegex, .text = "[^b]+", .field = "f"});
  ASSERT_TRUE(compiled.ok());
  const auto allowed_after = [&](TokenId lead) {
    const std::unique_ptr<Automaton> first = (*compiled)->Start();
    for (const TokenId never : {5U, 7U, 8U}) EXPECT_FALSE(first->Accept(never));
    EXPECT_TRUE(first->Accept(lead));
    const std::unique_ptr<Automaton> fork = first->Fork();
    std::vector<std::uint32_t> mask(1);
    fork->FillMask(mask);
    EXPECT_EQ(fork->Accept(2), (mask[0] >> 2 & 1U) != 0);
    return mask[0];
  };
  EXPECT_EQ(allowed_after(1), 1U << 3 | 1U << 4) << "surrogates";
  EXPECT_EQ(allowed_after(6), 1U << 2) << "overlong forms";
}

TEST_F(GrammarLibraryTest, AForkGoesItsOwnWay) {
  const auto grammar = Compiled(ConstraintKind::kChoice, R"(["ab","ac"])");
  ASSERT_NE(grammar, nullptr);
  const std::unique_ptr<Automaton> first = grammar->Start();
  ASSERT_TRUE(first->Accept(1));
  const std::unique_ptr<Automaton> second = first->Fork();
  ASSERT_TRUE(first->Accept(2));
  EXPECT_TRUE(first->MayEnd());
  EXPECT_FALSE(second->MayEnd());
  EXPECT_FALSE(first->Accept(3));
  EXPECT_TRUE(second->Accept(3));
  EXPECT_TRUE(second->MayEnd());
}

TEST_F(GrammarLibraryTest, WhatTheLibraryOnlyWarnsOfIsAnError) {
  EXPECT_NE(Refusal(ConstraintKind::kJsonSchema, R"({"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]})"),
            "");
  EXPECT_EQ(Refusal(ConstraintKind::kJsonSchema, R"({"oneOf":[{"type":"string"},{"type":"integer"}]})"), "");
}

TEST_F(GrammarLibraryTest, BrokenGrammarsAreErrors) {
  EXPECT_NE(Refusal(ConstraintKind::kGrammar, "root ::= other"), "");
  EXPECT_NE(Refusal(ConstraintKind::kGrammar, "rule ::= \"a\""), "");
  EXPECT_NE(Refusal(ConstraintKind::kGrammar, "root = \"a\""), "");
  EXPECT_NE(Refusal(ConstraintKind::kStructuralTag, R"({"type":"structural_tag"})"), "");
}

// A dead end in the midst of an output would be a failure of the worker's.
TEST_F(GrammarLibraryTest, WhatMatchesNothingIsRefused) {
  for (const char* grammar :
       {"root ::= a\na ::= b | \"\"\nb ::= a | \"\"", "root ::= \"\"", "root ::= \"x\" root",
        "root ::= \"a\" b\nb ::= b \"x\"", "root ::= \"a\" | \"b\" c\nc ::= \"x\" d\nd ::= d \"x\"", "root ::= \"q\"",
        "root ::= [^\\u0000-\\U0010ffff]"}) {
    EXPECT_NE(Refusal(ConstraintKind::kGrammar, grammar), "") << grammar;
  }
  EXPECT_EQ(Refusal(ConstraintKind::kGrammar, "root ::= \"\" | \"a\" root"), "");
  EXPECT_NE(Refusal(ConstraintKind::kRegex, "q"), "");
  EXPECT_NE(Refusal(ConstraintKind::kChoice, R"(["q"])"), "");
  EXPECT_NE(
      Refusal(ConstraintKind::kJsonSchema, R"({"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},)"
                                           R"("required":["n"]}},"$ref":"#/$defs/n"})"),
      "");
}

TEST_F(GrammarLibraryTest, NoMessageOfTheLibraryReachesAClient) {
  EXPECT_EQ(Refusal(ConstraintKind::kGrammar, "root ::= \"a\" b"),
            "is not a grammar that this server reads (line 1, column 14)");
  EXPECT_EQ(Refusal(ConstraintKind::kStructuralTag, R"({"type":"structural_tag"})"), "can not be enforced together");
}

// One that may take long is compiled in another process, and is the same.
TEST_F(GrammarLibraryTest, WhatIsCompiledApartIsTheSame) {
  library_ = OpenGrammarLibrary(kTokens, StartCompiler());
  ASSERT_NE(library_, nullptr);
  const wire::Constraint constraint{.kind = ConstraintKind::kGrammar,
                                    .text = "root ::= pair (\",\" pair)?\npair ::= \"a\" | \"é\" [12]\n",
                                    .field = "f"};
  ASSERT_EQ(library_->LengthOf(constraint), CompileLength::kLong);
  const auto grammar = Compiled(constraint.kind, constraint.text);
  ASSERT_NE(grammar, nullptr);
  std::vector<std::string> texts{"a", "é1", "é2"};
  for (const char* first : {"a", "é1", "é2"}) {
    for (const char* second : {"a", "é1", "é2"}) texts.push_back(std::string(first) + "," + second);
  }
  ExpectTexts(*grammar, texts, 60);
  EXPECT_EQ(Refusal(ConstraintKind::kGrammar, "root ::= \"x\" root"), "has a part that matches no text: it never ends");
  EXPECT_EQ(library_->LengthOf({.kind = ConstraintKind::kChoice, .text = R"(["a"])", .field = "f"}),
            CompileLength::kShort);
}

TEST_F(GrammarLibraryTest, ACompilationApartEndsWithItsProcessorTime) {
  library_ = OpenGrammarLibrary(kTokens, StartCompiler(), {.processor_time = std::chrono::milliseconds(1)});
  std::string grammar = "root ::= ";
  for (int i = 0; i < 2000; ++i) grammar += "[^a]{1,300} \"b\" | ";
  EXPECT_EQ(Refusal(ConstraintKind::kGrammar, grammar + "\"a\""), "takes more than 0.001 s to compile");
}

// The counts of a constraint are those of its texts, also beyond what the library writes out.
TEST_F(GrammarLibraryTest, CountsAreExact) {
  const auto allows = [](const CompiledGrammar& grammar, std::string_view before, std::size_t count) {
    const std::unique_ptr<Automaton> automaton = grammar.Start();
    std::string text(before);
    text += std::string(count, 'a') + std::string(before);
    for (const char c : text) {
      const auto token = std::find(kTokens.begin(), kTokens.end(), std::string(1, c)) - kTokens.begin();
      if (!automaton->Accept(static_cast<TokenId>(token))) return false;
    }
    return automaton->MayEnd();
  };
  for (const std::size_t least : {0U, 1U, 15U, 16U, 17U, 129U, 1000U}) {
    for (const std::size_t more : {0U, 1U, 16U, 128U, 3000U}) {
      const std::size_t most = std::max<std::size_t>(least + more, 1);
      const auto schema = Compiled(ConstraintKind::kJsonSchema,
                                   fmt::format(R"({{"type":"string","minLength":{},"maxLength":{}}})", least, most));
      const auto regex = Compiled(ConstraintKind::kRegex, fmt::format("[ab]{{{},{}}}", least, most));
      ASSERT_TRUE(schema != nullptr && regex != nullptr);
      for (const std::size_t count : {least, (least + most) / 2, most}) {
        EXPECT_TRUE(allows(*schema, "\"", count)) << least << " " << most << " " << count;
        EXPECT_TRUE(allows(*regex, "", count)) << least << " " << most << " " << count;
      }
      EXPECT_FALSE(allows(*schema, "\"", most + 1)) << least << " " << most;
      EXPECT_FALSE(allows(*regex, "", most + 1)) << least << " " << most;
      if (least == 0) continue;
      EXPECT_FALSE(allows(*schema, "\"", least - 1)) << least << " " << most;
      EXPECT_FALSE(allows(*regex, "", least - 1)) << least << " " << most;
    }
  }
}

TEST_F(GrammarLibraryTest, FreeTextMayStandAroundATag) {
  const auto grammar = Compiled(
      ConstraintKind::kStructuralTag,
      R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["{"],"tags":[{"type":"tag","begin":"{",)"
      R"("content":{"type":"json_schema","json_schema":{"enum":[1,2]}},"end":"}"}]}})");
  ASSERT_NE(grammar, nullptr);
  const std::unique_ptr<Automaton> automaton = grammar->Start();
  for (const TokenId token : {1U, 2U, 8U, 14U, 9U, 3U})
    ASSERT_TRUE(automaton->Accept(token)) << kTokens[token];  // ab{1}c
  EXPECT_TRUE(automaton->MayEnd());
  ASSERT_TRUE(automaton->Accept(8));
  EXPECT_FALSE(automaton->Accept(1));
}

}  // namespace
}  // namespace roost::worker

// Hostile tokenizer files: their rules would make a text too long or take too much time, and are stopped on that text.
#include "common/text/regex/rewrite_bounds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/common/text/tokenizer_fixture.h"
#include "tests/support/sanitized.h"

namespace roost {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing_support::FileParts;
using testing_support::Load;
using testing_support::LoadError;
using testing_support::ToJson;

std::string Repeat(std::string_view unit, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += unit;
  return out;
}

// `{"type":"Sequence","<member>":[part, part, …]}`
std::string Sequence(std::string_view member, std::string_view part, std::size_t times) {
  const std::string parts = Repeat(std::string(part) + ",", times);
  return fmt::format(R"({{"type":"Sequence","{}":[{}]}})", member, parts.substr(0, parts.size() - 1));
}

// The error of encoding `text`, or how many tokens it has.
std::string Outcome(const FileParts& parts, std::string_view text) {
  const auto ids = Load(parts)->Encode(text, SpecialTokens::kOmit);
  return ids.ok() ? fmt::format("{} tokens", ids->size()) : ids.error().message;
}

constexpr std::string_view kDoubling = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";

TEST(RewriteBoundsTest, AChainOfReplacementsIsStoppedAndNamed) {
  FileParts parts;
  parts.normalizer = Sequence("normalizers", kDoubling, 64);
  EXPECT_THAT(Outcome(parts, "a"), AllOf(HasSubstr("normalizer.normalizers[12]"), HasSubstr("grows over 4112 bytes")));
  const std::size_t large =
      testing_support::kSanitized ? 1U << 16U : 1U << 20U;  // otherwise the time limit comes first
  EXPECT_THAT(Outcome(parts, std::string(large, 'a')), HasSubstr("grows over"));
  EXPECT_EQ(Outcome(parts, "b"), "1 tokens");
}

TEST(RewriteBoundsTest, OneReplacementThatMultipliesIsStopped) {
  FileParts parts;
  const std::string content(100'000, 'b');
  for (const char* kind : {"String", "Regex"}) {
    parts.normalizer = fmt::format(R"({{"type":"Replace","pattern":{{"{}":"a"}},"content":"{}"}})", kind, content);
    EXPECT_THAT(Outcome(parts, std::string(1U << 20U, 'a')), AllOf(HasSubstr("normalizer:"), HasSubstr("grows over")));
  }
  parts.normalizer = fmt::format(R"({{"type":"Prepend","prepend":"{}"}})", content);
  EXPECT_THAT(Outcome(parts, "a"), HasSubstr("grows over"));
}

TEST(RewriteBoundsTest, NormalFormsOfTheLongestDecompositionsPass) {
  FileParts parts;
  parts.normalizer = R"({"type":"NFKC"})";
  EXPECT_EQ(Outcome(parts, Repeat("\uFDFA", 10'000) + "a"), "1 tokens");
  parts.normalizer = fmt::format(R"({{"type":"Sequence","normalizers":[{{"type":"NFKC"}},{}]}})",
                                 R"({"type":"Replace","pattern":{"Regex":"."},"content":"12345678"})");
  EXPECT_THAT(Outcome(parts, Repeat("\uFDFA", 10'000)), HasSubstr("normalizers[1]: the text grows over"));
}

TEST(RewriteBoundsTest, AChainOfPreTokenizersIsStoppedAndNamed) {
  FileParts parts;
  constexpr std::string_view kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  parts.pre_tokenizer = Sequence("pretokenizers", kByteLevel, 64);
  EXPECT_THAT(Outcome(parts, "é"), AllOf(HasSubstr("pre_tokenizer.pretokenizers[11]"), HasSubstr("grows over")));
}

// The normalizer treats each part between two tokens as a separate text, but the limit covers all parts.
TEST(RewriteBoundsTest, StretchesBetweenAddedTokensShareTheBound) {
  FileParts parts;
  parts.added_tokens = R"([{"id":0,"content":"a","single_word":false,"lstrip":false,"rstrip":false,
    "normalized":false,"special":true}])";
  parts.normalizer = fmt::format(R"({{"type":"Prepend","prepend":"{}"}})", std::string(4'000, 'b'));
  EXPECT_EQ(Outcome(parts, "ab"), "4002 tokens");
  EXPECT_THAT(Outcome(parts, Repeat("ab", 10'000)), HasSubstr("grows over"));
}

TEST(RewriteBoundsTest, ADecoderThatMultipliesIsRefused) {
  FileParts parts;
  parts.decoder = Sequence("decoders", kDoubling, 6);
  EXPECT_EQ(LoadError(ToJson(parts)), "");
  parts.decoder = Sequence("decoders", kDoubling, 7);
  EXPECT_THAT(LoadError(ToJson(parts)), AllOf(HasSubstr("decoder.decoders[6]"), HasSubstr("over 64 times")));
}

TEST(RewriteBoundsTest, LongTokensAndPatternsAreRefused) {
  FileParts parts;
  parts.model = fmt::format(R"({{"type":"BPE","merges":[],"vocab":{{"{}":0}}}})", std::string(70'000, 'a'));
  EXPECT_THAT(LoadError(ToJson(parts)), HasSubstr("70000 bytes"));
  parts = FileParts();
  parts.normalizer =
      fmt::format(R"({{"type":"Replace","pattern":{{"String":"{}"}},"content":""}})", std::string(2'000, 'a'));
  EXPECT_THAT(LoadError(ToJson(parts)), HasSubstr("normalizer.pattern.String: is over the limit of 1024 bytes"));
}

// Each pattern would take hours: the square or the cube of the text's length, or all ways to match a part of it.
class SlowPatternTest : public testing::TestWithParam<const char*> {};

TEST_P(SlowPatternTest, IsStoppedAndNamed) {
  FileParts parts;
  parts.normalizer = fmt::format(R"({{"type":"Replace","pattern":{{"Regex":"{}"}},"content":""}})", GetParam());
  EXPECT_THAT(Outcome(parts, Repeat("ab", 50'000)),
              AllOf(HasSubstr("normalizer: "), AnyOf(HasSubstr("seconds"), HasSubstr("match limit"))));
}

INSTANTIATE_TEST_SUITE_P(All, SlowPatternTest,
                         testing::Values("[ab]*?[abc]*[cd]", "(?:[ab]{1,9}(?=[ab]*[cd]|)){99}[cd]",
                                         "[ab](?:[ab]|[ac])?(?=[abc]*[de])", "[ab]{2,20000}[cd]"));

TEST(RewriteBoundsTest, ManyRulesShareTheTime) {
  FileParts parts;
  constexpr std::string_view kSlow = R"({"type":"Replace","pattern":{"String":"aaaaaaaaaaaaaaaaaaaab"},"content":""})";
  parts.normalizer = Sequence("normalizers", kSlow, 5'000);
  EXPECT_THAT(Outcome(parts, std::string(200'000, 'a')), HasSubstr("seconds"));
}

// It would take minutes if each token looked at all the white space around it.
TEST(RewriteBoundsTest, TokensOfWhiteSpaceThatTakeTheirNeighboursAreLinear) {
  FileParts parts;
  parts.added_tokens = R"([{"id":0,"content":" ","single_word":false,"lstrip":true,"rstrip":true,
    "normalized":false,"special":true}])";
  EXPECT_EQ(Outcome(parts, std::string(1U << 20U, ' ')), "1048576 tokens");
}

TEST(CpuBudgetTest, LooksAtTheClockWhenThereWasWork) {
  text::CpuBudget budget;
  budget.Start(0);
  EXPECT_TRUE(budget.TrySpend(1));
  // One clock reading per call: each call spends as much as triggers one, so the loop ends with the time and not
  // before.
  std::size_t looks = 0;
  while (budget.TrySpend(1U << 20U)) ++looks;
  EXPECT_GT(looks, 0U);
  EXPECT_FALSE(budget.TrySpend(0));
  EXPECT_THAT(budget.SpentTime().message, HasSubstr("1.0 seconds"));
  budget.Start(1'000'000);
  EXPECT_TRUE(budget.TrySpend(1U << 20U));
  EXPECT_THAT(budget.SpentTime().message, HasSubstr("3.0 seconds"));
}

}  // namespace
}  // namespace roost

#include "common/grammar/regex_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/utf8.h"
#include "common/grammar/code_points.h"

namespace roost::grammar {
namespace {

std::string Whole(std::string_view regex) {
  const Result<CostedText> text = LibraryRegex(regex, RegexUse::kWholeText, "guided_regex");
  return text.ok() ? text->text : "! " + text.error().message;
}
std::string Pattern(std::string_view regex) {
  const Result<CostedText> text = LibraryRegex(regex, RegexUse::kJsonPattern, "schema");
  return text.ok() ? text->text : "! " + text.error().message;
}

TEST(RegexRulesTest, AnchorsAtTheEndsOfAWholeTextMeanNothing) {
  EXPECT_EQ(Whole("^ab$"), "ab");
  EXPECT_EQ(Whole("ab"), "ab");
  EXPECT_EQ(Whole("^a|b$"), "a|b");
}

// A JSON Schema pattern may match any part of the text.
TEST(RegexRulesTest, APatternWithoutAnchorsMayHaveAnythingAround) {
  const std::string any = "[^\\u0000-\\u001f\\u0022\\u005c]*";
  EXPECT_EQ(Pattern("^a$"), "a");
  EXPECT_EQ(Pattern("a"), any + "a" + any);
  EXPECT_EQ(Pattern("^a|b$"), "a" + any + "|" + any + "b");
}

TEST(RegexRulesTest, ClassesAreWrittenOut) {
  EXPECT_EQ(Whole("\\d"), "[0-9]");
  EXPECT_EQ(Whole("[\\w-]"), "[0-9A-Za-z\\u002d\\u005f]");
  EXPECT_EQ(Whole("[^a-z]"), "[^a-z\\u0000]");
  EXPECT_EQ(Whole("[a\\]b]"), "[ab\\u005d]");
  EXPECT_EQ(Whole("[+-]"), "[\\u002b\\u002d]");
  EXPECT_EQ(Whole("\\u0041\\x42\\t"), "AB\\u0009");
  EXPECT_EQ(Whole("é"), "é");
}

TEST(RegexRulesTest, ACaretNeverStandsFirstInAClass) {
  EXPECT_EQ(Whole("[\\^]"), "\\u005e");
  EXPECT_EQ(Whole("[\\^a]"), "[a\\u005e]");
  EXPECT_EQ(Whole("[\\^-`]"), "[\\u005f\\u0060\\u005e]");
}

// Reads what stands first in a text as the library does: \x with every hexadecimal digit that follows, \u with four.
std::uint32_t ReadOne(std::string_view text, std::size_t& size) {
  const auto hex = [&](std::size_t most) {
    std::uint32_t value = 0;
    for (size = 2; size < text.size() && size < 2 + most && std::isxdigit(static_cast<unsigned char>(text[size]));
         ++size) {
      const char lower = static_cast<char>(text[size] | 0x20);
      value = value * 16 + static_cast<std::uint32_t>(lower >= 'a' ? lower - 'a' + 10 : lower - '0');
    }
    return value;
  };
  if (text.starts_with("\\x")) return hex(text.size());
  if (text.starts_with("\\u")) return hex(4);
  size = Utf8SequenceLength(text);
  std::uint32_t character = static_cast<unsigned char>(text[0]);
  if (size > 1) character &= 0xFFU >> (size + 1);
  for (std::size_t i = 1; i < size; ++i) character = character << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return character;
}

TEST(CodePointsTest, EveryCharacterBeforeEveryHexDigitIsReadAsItself) {
  std::string wrong;
  for (std::uint32_t character = 0; character <= CodePoints::kLast; ++character) {
    if (character >= 0xD800 && character <= 0xDFFF) continue;
    std::string text = CodePoints::TextOf(character) + '0';
    for (const char digit : std::string_view("0123456789abcdefABCDEF")) {
      text.back() = digit;
      std::size_t size = 0;
      if (ReadOne(text, size) != character || size + 1 != text.size()) wrong += text + ' ';
    }
  }
  EXPECT_EQ(wrong, "");
}

// Only ranges that begin with no hexadecimal digit may follow an escaped character: the library writes some escapes
// anew, in a form that takes such digits along.
TEST(CodePointsTest, HexDigitsComeBeforeEscapesInAClass) {
  for (std::uint32_t character = 1; character < 0x80; ++character) {
    for (const char digit : std::string_view("0123456789abcdefABCDEF")) {
      if (std::isalnum(static_cast<int>(character)) != 0) continue;
      const auto second = static_cast<std::uint32_t>(digit);
      const CodePoints set({{character, character}, {second, second}});
      if (set.ranges().size() == 1) continue;  // neighbours
      EXPECT_EQ(set.Text(), fmt::format("[{}\\u{:04x}]", digit, character));
    }
  }
}

TEST(RegexRulesTest, RepetitionsAreKept) {
  EXPECT_EQ(Whole("a*?b+c?d{3}e{2,}f{1,4}"), "a*b+c?d{3,3}e{2,}f{1,4}");
  EXPECT_EQ(Whole("ab{0}c"), "ac");
  EXPECT_EQ(Whole("(?:ab|c){2}(?<name>x)"), "(ab|c){2,2}(x)");
  EXPECT_EQ(Whole("(ab|)c"), "((ab)?)c");
}

TEST(RegexRulesTest, WhatIsReadOtherwiseIsRefused) {
  for (const char* regex : {"",    "a(?=b)", "(?!a)b", "(?<=a)b", "(?<!a)b", "(a)\\1",   "\\bword", "\\p{L}", "(?i)a",
                            "a^b", "a$b",    "(^a)",   "a**",     "*a",      "a{2,1}",   "a{x}",    "(a",     "a)",
                            "[a",  "[z-a]",  "\\",     "a]",      "\\xg0",   "a{70000}", "()",      "[]"}) {
    EXPECT_EQ(Whole(regex).substr(0, 2), "! ") << regex;
  }
  EXPECT_EQ(LibraryRegex("(a", RegexUse::kWholeText, "guided_regex").error().field, "guided_regex");
}

// Quotes and backslashes can only be written with an escape, and the pattern does not see escapes.
TEST(RegexRulesTest, PatternsOfStringsWantNoQuotesAndBackslashes) {
  EXPECT_EQ(Pattern("^\"$").substr(0, 2), "! ");
  EXPECT_EQ(Pattern("^\\\\$").substr(0, 2), "! ");
  EXPECT_EQ(Pattern("^\\n$").substr(0, 2), "! ");
  EXPECT_EQ(Pattern("^[\"a]$"), "a");
}

TEST(RegexRulesTest, RepetitionsOfRepetitionsAreBounded) {
  EXPECT_EQ(Whole("((a{100}){100}){100}").substr(0, 2), "! ");
  EXPECT_EQ(Whole(std::string(70, '(') + "a" + std::string(70, ')')).substr(0, 2), "! ");
  EXPECT_EQ(Whole(std::string(20'000, 'a')).substr(0, 2), "! ");
}

}  // namespace
}  // namespace roost::grammar

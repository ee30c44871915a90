#include "common/grammar/regex_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::grammar {
namespace {

std::string Whole(std::string_view regex) {
  const Result<std::string> text = LibraryRegex(regex, RegexUse::kWholeText, "guided_regex");
  return text.ok() ? *text : "! " + text.error().message;
}
std::string Pattern(std::string_view regex) {
  const Result<std::string> text = LibraryRegex(regex, RegexUse::kJsonPattern, "schema");
  return text.ok() ? *text : "! " + text.error().message;
}

TEST(RegexRulesTest, AnchorsAtTheEndsOfAWholeTextMeanNothing) {
  EXPECT_EQ(Whole("^ab$"), "ab");
  EXPECT_EQ(Whole("ab"), "ab");
  EXPECT_EQ(Whole("^a|b$"), "a|b");
}

// A JSON Schema pattern may match any part of the text.
TEST(RegexRulesTest, APatternWithoutAnchorsMayHaveAnythingAround) {
  const std::string any = "[^\\x00-\\x1f\\x22\\x5c]*";
  EXPECT_EQ(Pattern("^a$"), "a");
  EXPECT_EQ(Pattern("a"), any + "a" + any);
  EXPECT_EQ(Pattern("^a|b$"), "a" + any + "|" + any + "b");
}

TEST(RegexRulesTest, ClassesAreWrittenOut) {
  EXPECT_EQ(Whole("\\d"), "[0-9]");
  EXPECT_EQ(Whole("[\\w-]"), "[\\x2d0-9A-Z\\x5fa-z]");
  EXPECT_EQ(Whole("[^a-z]"), "[^\\x00a-z]");
  EXPECT_EQ(Whole("[a\\]b]"), "[\\x5dab]");
  EXPECT_EQ(Whole("[+-]"), "[\\x2b\\x2d]");
  EXPECT_EQ(Whole("\\u0041\\x42\\t"), "AB\\x09");
  EXPECT_EQ(Whole("é"), "é");
}

TEST(RegexRulesTest, ACaretNeverStandsFirstInAClass) {
  EXPECT_EQ(Whole("[\\^]"), "\\x5e");
  EXPECT_EQ(Whole("[\\^a]"), "[a\\x5e]");
  EXPECT_EQ(Whole("[\\^-`]"), "[\\x5f\\x60\\x5e]");
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

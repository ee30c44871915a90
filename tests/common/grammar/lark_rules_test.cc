#include "common/grammar/lark_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace roost::grammar {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Rules(std::string_view grammar, RulePlace place = RulePlace::kText) {
  const Result<CostedText> rules = LarkRules(grammar, place, "definition");
  return rules.ok() ? rules->text : "! " + rules.error().message;
}

TEST(LarkRulesTest, WhatIsIgnoredMayFollowEachTerminalOfARule) {
  EXPECT_EQ(Rules("start: \"a\" B  // a comment\n     | B -> alias\nB: /b/ C\nC: \"c\"\n%ignore \" \"\n"),
            "root ::= ignored r1\n"
            "ignored ::= ((\"\\u0020\"))*\n"
            "r2 ::= (\"b\") r3\n"
            "r3 ::= \"c\"\n"
            "r1 ::= (\"a\" ignored) (r2 ignored) | (r2 ignored)\n");
}

TEST(LarkRulesTest, WithinAJsonStringCharactersAreEscaped) {
  const std::string rules = Rules("start: \"\\\"\\n\" /[a\\n\\\\]/ \"é\"", RulePlace::kJsonString);
  EXPECT_THAT(rules, HasSubstr(R"("\u005c\u0022\u005cn")"));
  EXPECT_THAT(rules, HasSubstr(R"(("a" | "\u005cn" | "\u005c\u005c"))"));
  EXPECT_THAT(rules, HasSubstr("\"é\""));
}

TEST(LarkRulesTest, TerminalsOfLarksLibraryBringThoseThatTheyName) {
  const std::string rules = Rules("start: NUM\n%import common.INT -> NUM\n");
  EXPECT_THAT(rules, HasSubstr("[0-9]"));
  for (const LarkTerminal& each : kLarkCommon) {
    EXPECT_THAT(Rules(std::string("start: X\n%import common.") + std::string(each.name) + " -> X"),
                StartsWith("root ::= "))
        << each.name;
  }
}

TEST(LarkRulesTest, ErrorsNameFieldAndLine) {
  const Error error = LarkRules("start: a\na: other\n", RulePlace::kText, "definition").error();
  EXPECT_EQ(error.field, "definition");
  EXPECT_THAT(error.message, HasSubstr("line 2"));
  EXPECT_THAT(error.message, HasSubstr("'other', which is not defined"));
}

TEST(LarkRulesTest, WhatIsNotReadIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "bytes"},
      {"start: \"\xFF\"", "UTF-8"},
      {"other: \"a\"", "no rule 'start'"},
      {"start: A\nA: B\nB: \"x\" A", "in its own definition"},
      {"start: \"a\"\nstart: \"b\"", "twice"},
      {"start: list{A}", "template"},
      {"start: A\nA.1: \"a\"", "priority"},
      {"start: \"a\"\n%override start: \"b\"", "%override"},
      {"start: /a$/", "anchor"},
      {"start: /a", "does not end"},
      {"start: \"a\"x", "flag"},
      {"start: \"\\", "does not end"},
      {"start: \"b\"..\"a\"", "range"},
      {"start: \"a\" ~ 3..2", "wrong order"},
      {"start: \"a\" \x01", "byte 1"},
      {"start: " + std::string(100, '('), "groups more than"},
      {"start: " + std::string(kMaxLarkBytes, 'a'), "bytes"},
  };
  for (const auto& [grammar, reason] : cases) EXPECT_THAT(Rules(grammar), HasSubstr(reason)) << grammar.substr(0, 40);
}

}  // namespace
}  // namespace roost::grammar

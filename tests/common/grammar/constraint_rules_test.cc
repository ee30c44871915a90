#include "common/grammar/constraint_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace roost::grammar {
namespace {

using testing::HasSubstr;
using wire::ConstraintKind;

Result<LibraryInput> InputOf(ConstraintKind kind, std::string text) {
  return LibraryInputOf({.kind = kind, .text = std::move(text), .field = "f"});
}

TEST(ConstraintRulesTest, ChoicesBecomeAGrammar) {
  const auto input = InputOf(ConstraintKind::kChoice, R"(["yes","say \"no\"","a\\b\n"])");
  ASSERT_TRUE(input.ok()) << input.error().ToString();
  EXPECT_EQ(input->form, LibraryForm::kGrammar);
  EXPECT_EQ(input->text, "root ::= \"yes\" | \"say\\u0020\\u0022no\\u0022\" | \"a\\u005cb\\u000a\"\n");
  for (const char* text : {"[]", "[\"\"]", "[1]", "{}", "[", "\"a\""}) {
    EXPECT_EQ(InputOf(ConstraintKind::kChoice, text).error().field, "f") << text;
  }
}

TEST(ConstraintRulesTest, GrammarsWithMacrosOfTheLibraryAreRefused) {
  EXPECT_TRUE(InputOf(ConstraintKind::kGrammar, "root ::= (\"Token(\" | [(]) # TagDispatch(\n").ok());
  for (const char* text : {"root ::= Token(5)", "root ::= TagDispatch ((\"a\", b))", "root ::= \"a\" | Regex(\"b\")"}) {
    EXPECT_THAT(InputOf(ConstraintKind::kGrammar, text).error().message, HasSubstr("macro")) << text;
  }
  EXPECT_FALSE(InputOf(ConstraintKind::kGrammar, "root ::= \"a").ok());
  EXPECT_FALSE(InputOf(ConstraintKind::kGrammar, "root ::= \"a\"{1,100000}").ok());
  EXPECT_FALSE(InputOf(ConstraintKind::kGrammar, "root ::= " + std::string(100, '(')).ok());
  EXPECT_FALSE(InputOf(ConstraintKind::kGrammar, "").ok());
}

TEST(ConstraintRulesTest, SchemasInsideStructuralTagsAreJudgedToo) {
  const std::string before = R"({"type":"structural_tag","format":{"type":"tag","begin":"<a>","content":)"
                             R"({"type":"json_schema","json_schema":)";
  const auto input = InputOf(ConstraintKind::kStructuralTag, before + R"({"type":"array"}},"end":"</a>"}})");
  ASSERT_TRUE(input.ok()) << input.error().ToString();
  EXPECT_EQ(input->text, before + R"({"type":"array","items":{}}},"end":"</a>"}})");
  EXPECT_THAT(InputOf(ConstraintKind::kStructuralTag, before + R"({"not":{}}},"end":"</a>"}})").error().message,
              HasSubstr("'not'"));
  EXPECT_FALSE(
      InputOf(ConstraintKind::kStructuralTag, R"({"format":{"type":"exclude_token","exclude_tokens":[5]}})").ok());
  EXPECT_FALSE(InputOf(ConstraintKind::kStructuralTag, "[]").ok());
}

TEST(ConstraintRulesTest, AnyJsonIsAnObject) {
  EXPECT_EQ(InputOf(ConstraintKind::kJson, "")->text, R"({"type":"object","additionalProperties":{}})");
}

TEST(ConstraintRulesTest, TextsAreBounded) {
  EXPECT_FALSE(InputOf(ConstraintKind::kJsonSchema, std::string(wire::kMaxConstraintBytes + 1, ' ')).ok());
}

}  // namespace
}  // namespace roost::grammar

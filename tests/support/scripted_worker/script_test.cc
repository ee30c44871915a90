#include "tests/support/scripted_worker/script.h"

#include <gtest/gtest.h>

namespace roost::testing_support {
namespace {

TEST(ScriptTest, TheFirstRuleWhoseTextsAreAllThereAnswers) {
  const auto script = Script::Parse(
      R"([{"when": ["rain", "tool"], "answer": "wet"}, {"when": ["rain"], "answer": "ask"}, {"answer": "none"}])", "s");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->AnswerTo("will it rain?"), "ask");
  EXPECT_EQ(script->AnswerTo("the tool says rain"), "wet");
  EXPECT_EQ(script->AnswerTo("hello"), "none");
}

TEST(ScriptTest, NamesTheRuleThatIsWrong) {
  EXPECT_NE(Script::Parse(R"([{"answer": "a"}, {"when": ["b"]}])", "s").error().message.find("rule 1"),
            std::string::npos);
  EXPECT_NE(Script::Parse(R"([{"when": [1], "answer": "a"}])", "s").error().message.find("rule 0"), std::string::npos);
  EXPECT_EQ(Script::Parse("{}", "s").error().field, "s");
}

}  // namespace
}  // namespace roost::testing_support

#include "deploy/roostctl/text_commands.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/support/shared_data.h"
#include "tests/support/source_dir.h"

namespace roost::roostctl {
namespace {

const std::filesystem::path kFixture =
    std::filesystem::path(testing_support::SourceDir()) / "tests/common/text/testdata/gpt2_style.tokenizer.json";

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome Tokenize(const std::filesystem::path& tokenizer, std::string_view input) {
  std::istringstream in{std::string(input)};
  std::ostringstream out;
  std::ostringstream err;
  const int status = RunTokenize({tokenizer}, in, out, err);
  return {status, out.str(), err.str()};
}

class SharedCasesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedCasesTest, AnswersEveryCaseAsTheReference) {
  const std::filesystem::path folder = testing_support::SharedDir() / "tokenizers";
  ROOST_SKIP_WITHOUT(folder);
  std::ifstream file(folder / (std::string(GetParam()) + ".cases.jsonl"));
  std::stringstream cases;
  cases << file.rdbuf();
  const Outcome outcome = Tokenize(folder / (std::string(GetParam()) + ".tokenizer.json"), cases.str());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream answers(outcome.out);
  simdjson::dom::parser case_parser;
  simdjson::dom::parser answer_parser;
  std::size_t count = 0;
  for (std::string line, answer; std::getline(cases, line); ++count) {
    ASSERT_TRUE(std::getline(answers, answer));
    const simdjson::dom::element expected = case_parser.parse(line);
    const simdjson::dom::element given = answer_parser.parse(answer);
    for (const char* key : {"ids", "ids_with_special", "decoded"}) {
      EXPECT_EQ(simdjson::to_string(given[key]), simdjson::to_string(expected[key])) << key << " of " << line;
    }
  }
  EXPECT_GE(count, 200U);
}

INSTANTIATE_TEST_SUITE_P(RealVocabularies, SharedCasesTest, ::testing::Values("gpt-2", "cl100k", "llama-spm"),
                         [](const auto& test) { return "tokenizer" + std::to_string(test.index); });

TEST(TokenizeTest, AnswersGoodLinesAndNamesTheBadOnes) {
  const Outcome outcome = Tokenize(kFixture, "{\"text\":\"a\"}\nnonsense\n{\"text\":7}\n{}\n\n{\"text\":\"b\"}\n");
  EXPECT_EQ(outcome.status, 1);
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_NE(line.find("\"decoded\":\"a\""), std::string::npos) << line;
  std::getline(lines, line);
  EXPECT_NE(line.find("\"error\":\"not valid JSON"), std::string::npos) << line;
  std::getline(lines, line);
  EXPECT_EQ(line, "{\"error\":\"text: must be a string\"}");
  std::getline(lines, line);
  EXPECT_EQ(line, "{\"error\":\"text: must be a string\"}");
  std::getline(lines, line);
  EXPECT_NE(line.find("\"decoded\":\"b\""), std::string::npos) << line;
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(TokenizeTest, SaysWhyATokenizerCanNotBeUsed) {
  const Outcome outcome = Tokenize("/no/such/tokenizer.json", "{\"text\":\"a\"}\n");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_NE(outcome.err.find("/no/such/tokenizer.json: can not be opened"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace roost::roostctl

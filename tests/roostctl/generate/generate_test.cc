// The command on the demo model.
#include "deploy/roostctl/generate/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <sstream>
#include <vector>

#include "tests/support/source_dir.h"
#include "worker/grammar/grammar_library.h"

namespace roost::roostctl {
namespace {

using ::testing::HasSubstr;

class GenerateTest : public ::testing::Test {
 protected:
  // Takes flags as on the command line; the prompts come from the standard input.
  int Run(std::vector<std::string> flags, const std::string& prompts) {
    const std::string model = std::string(testing_support::SourceDir()) + "/deploy/demo-model";
    flags.insert(flags.begin(), {"roostctl generate", "--model", model, "--threads", "1", "--kv-blocks", "512"});
    std::vector<const char*> arguments;
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    GenerateOptions options;
    ConfigParser parser("roostctl generate", "test");
    Declare(options, parser);
    const auto parsed = parser.Parse(static_cast<int>(arguments.size()), arguments.data());
    EXPECT_TRUE(parsed.ok()) << parsed.error().ToString();
    std::istringstream in(prompts);
    err_.str("");
    return RunGenerate(options, in, out_, err_);
  }

  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(GenerateTest, PrintsALineOfJsonPerPromptAndHowItWent) {
  ASSERT_EQ(Run({"--prompts", "-", "--max-tokens", "5", "--temperature", "0", "--ignore-eos", "--scheduler", "naive"},
                "The old king sat by the fire and told the children of the sea.\n"
                "The old king sat by the fire and told the children of the war.\n"),
            0)
      << err_.str();
  std::istringstream lines(out_.str());
  simdjson::dom::parser parser;
  std::uint64_t index = 0;
  for (std::string line; std::getline(lines, line); ++index) {
    simdjson::dom::element answer;
    ASSERT_EQ(parser.parse(line).get(answer), simdjson::SUCCESS) << line;
    EXPECT_EQ(std::uint64_t(answer["index"]), index);
    EXPECT_EQ(std::uint64_t(answer["choice"]), 0U);
    EXPECT_GT(std::uint64_t(answer["prompt_tokens"]), 10U);
    EXPECT_EQ(std::uint64_t(answer["cached_tokens"]) > 0, index == 1) << line;
    EXPECT_EQ(std::uint64_t(answer["output_tokens"]), 5U);
    EXPECT_EQ(simdjson::dom::array(answer["tokens"]).size(), 5U);
    EXPECT_EQ(std::string_view(answer["finish_reason"]), "length");
    EXPECT_FALSE(std::string_view(answer["text"]).empty());
  }
  EXPECT_EQ(index, 2U);
  EXPECT_THAT(err_.str(), HasSubstr("2 of 2 prompts\n2 prompts in "));
}

// As a worker would, with the same library.
TEST_F(GenerateTest, FormsOfTheOutputAreEnforced) {
  if (!worker::HasGrammarLibrary()) GTEST_SKIP() << "built without xgrammar";
  const std::string prompts = R"j({"prompt":"x","guided_choice":["yes","no"]}
{"prompt":"x","guided_regex":"The answer is (4|5)"}
{"prompt":"x","response_format":{"type":"json_schema","json_schema":{"schema":{"const":"one two"}}}}
)j";
  for (const char* scheduler : {"naive", "offline", "online"}) {
    out_.str("");
    ASSERT_EQ(Run({"--prompts", "-", "--max-tokens", "30", "--temperature", "0", "--scheduler", scheduler}, prompts), 0)
        << err_.str();
    EXPECT_THAT(out_.str(), testing::ContainsRegex("\"text\":\"(yes|no)\""));
    EXPECT_THAT(out_.str(), testing::ContainsRegex("\"text\":\"The answer is (4|5)\""));
    EXPECT_THAT(out_.str(), HasSubstr(R"j("text":"\"one two\"")j"));
  }
  out_.str("");
  EXPECT_NE(Run({"--prompts", "-"}, R"j({"prompt":"x","guided_grammar":"root ::= \"a\" root"})j"), 0);
  EXPECT_THAT(out_.str(), HasSubstr("matches no text"));
}

TEST_F(GenerateTest, WithoutPrefixCacheNoPromptFindsAnything) {
  const std::string prompt = "The old king sat by the fire and told the children of the sea.\n";
  ASSERT_EQ(
      Run({"--prompts", "-", "--max-tokens", "2", "--scheduler", "naive", "--prefix-cache", "off"}, prompt + prompt), 0)
      << err_.str();
  const std::string none = "\"cached_tokens\":0,";
  EXPECT_NE(out_.str().find(none), std::string::npos);
  EXPECT_NE(out_.str().find(none), out_.str().rfind(none));
  EXPECT_THAT(err_.str(), HasSubstr("cached 0%"));
}

TEST_F(GenerateTest, WrongValueIsToldBeforeTheModelIsRead) {
  EXPECT_EQ(Run({"--prompts", "-", "--temperature", "warm"}, "a\n"), 64);
  EXPECT_THAT(err_.str(), HasSubstr("roostctl generate: temperature: 'warm'"));
  EXPECT_EQ(Run({"--prompts", "-", "--temperature", "2.5"}, "a\n"), 64);
  EXPECT_EQ(Run({"--prompts", "-", "--block-tokens", "17"}, "a\n"), 64);
  EXPECT_EQ(Run({"--prompts", "/nonexistent/list"}, "a\n"), 66);
  EXPECT_THAT(err_.str(), HasSubstr("roostctl generate: /nonexistent/list: can not be read"));
}

TEST_F(GenerateTest, WrongPromptStopsTheRunBeforeItBegins) {
  EXPECT_EQ(Run({"--prompts", "-"}, "fine\n{\"prompt\": \"a\", \"top_p\": 2}\n"), 65);
  EXPECT_THAT(err_.str(), HasSubstr("roostctl generate: standard input:2: top_p: must be"));
  EXPECT_EQ(out_.str(), "");
  EXPECT_EQ(Run({"--prompts", "/"}, ""), 65);
  EXPECT_THAT(err_.str(), HasSubstr("roostctl generate: /:1: can not be read"));
}

TEST_F(GenerateTest, OutputThatIsNotWrittenIsAFailure) {
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(Run({"--prompts", "-", "--max-tokens", "1"}, "a\n"), 1);
  EXPECT_THAT(err_.str(), HasSubstr("could not be written"));
}

}  // namespace
}  // namespace roost::roostctl

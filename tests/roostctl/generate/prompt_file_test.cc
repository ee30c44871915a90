#include "deploy/roostctl/generate/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string_view>

#include "tests/roostctl/generate/offline_models.h"

namespace roost::roostctl {
namespace {

using ::testing::ElementsAre;

class PromptFileTest : public ::testing::Test {
 protected:
  Result<std::vector<OfflineRequest>> Read(const std::string& text, const PromptDefaults& defaults = {}) {
    std::istringstream in(text);
    return ReadPrompts(in, "list.txt", model_, defaults);
  }
  [[nodiscard]] std::vector<TokenId> Tokens(std::string_view text) const {
    return model_->tokenizer->Encode(text, SpecialTokens::kAdd).value();
  }
  // The field that ReadPrompts names in its error for `line`, which is the second line.
  std::string FieldOf(const std::string& line) {
    const auto requests = Read("fine\n" + line + "\n");
    EXPECT_FALSE(requests.ok()) << line;
    return requests.ok() ? "" : requests.error().field;
  }

  std::shared_ptr<const router::ServedModel> model_ = ServedDemo(16, 64);
};

TEST_F(PromptFileTest, LineIsTextOrTheBodyOfACompletionOrAChat) {
  const auto requests = Read(
      "Once upon a time\n\n{\"prompt\": \"the king\"}\r\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"the queen\"}], \"model\": \"demo-model\"}\n  last");
  ASSERT_TRUE(requests.ok()) << requests.error().ToString();
  ASSERT_EQ(requests->size(), 4U);
  EXPECT_EQ((*requests)[0].spec.generate.prompt, Tokens("Once upon a time"));
  EXPECT_EQ((*requests)[1].spec.generate.prompt, Tokens("the king"));
  EXPECT_EQ((*requests)[2].spec.generate.prompt, Tokens("the queen"));
  EXPECT_EQ((*requests)[3].spec.generate.prompt, Tokens("  last"));
  EXPECT_EQ((*requests)[3].spec.generate.block_hashes.size(), (*requests)[3].spec.generate.prompt.size() / 16);
}

TEST_F(PromptFileTest, FieldsOfALineGoBeforeTheDefaults) {
  const auto requests = Read(
      "text\n{\"prompt\": \"x\", \"max_tokens\": 3, \"temperature\": 1.5, \"seed\": 9, \"stop\": [\"end\"], \"n\": 2, "
      "\"cache\": \"off\"}\n",
      {.max_tokens = 5, .temperature = 0.25F, .ignore_eos = true});
  ASSERT_TRUE(requests.ok()) << requests.error().ToString();
  const router::GenerateSpec& text = requests->at(0).spec;
  EXPECT_EQ(text.generate.max_output_tokens, 5U);
  EXPECT_EQ(text.generate.sampling.temperature, 0.25F);
  EXPECT_TRUE(text.generate.ignore_eos);
  EXPECT_EQ(text.generate.cache_mode, wire::CacheMode::kOn);
  const router::GenerateSpec& json = requests->at(1).spec;
  EXPECT_EQ(json.generate.max_output_tokens, 3U);
  EXPECT_EQ(json.generate.sampling.temperature, 1.5F);
  EXPECT_EQ(json.generate.sampling.seed, 9U);
  EXPECT_EQ(json.generate.sample_count, 2U);
  EXPECT_EQ(json.generate.cache_mode, wire::CacheMode::kOff);
  EXPECT_THAT(requests->at(1).stop, ElementsAre("end"));
}

TEST_F(PromptFileTest, WithoutDefaultsTheModelsOwnCountAndTheContextIsFilled) {
  const auto requests = Read("a\n");
  const router::GenerateSpec& spec = requests.value().at(0).spec;
  EXPECT_EQ(spec.generate.max_output_tokens, 64 - spec.generate.prompt.size());
  EXPECT_EQ(spec.generate.sampling.temperature, model_->sampling.temperature);
  EXPECT_FALSE(spec.generate.ignore_eos);
  EXPECT_EQ(Read("a\n", {.max_tokens = 1000}).value().at(0).spec.generate.max_output_tokens,
            64 - spec.generate.prompt.size());
}

TEST_F(PromptFileTest, LinesDrawWithSeedsOfTheirOwnThatOneNumberGives) {
  const auto seeds = [this](std::uint64_t seed) {
    const auto requests = Read("a\na\n", {.seed = seed}).value();
    return std::pair(requests.at(0).spec.generate.sampling.seed, requests.at(1).spec.generate.sampling.seed);
  };
  EXPECT_EQ(seeds(1), seeds(1));
  EXPECT_NE(seeds(1), seeds(2));
  EXPECT_NE(seeds(1).first, seeds(1).second);
}

TEST_F(PromptFileTest, ErrorNamesFileLineAndField) {
  EXPECT_EQ(FieldOf("{\"prompt\": "), "list.txt:2");
  EXPECT_EQ(FieldOf("{}"), "list.txt:2: prompt");
  EXPECT_EQ(FieldOf("{\"prompt\": 7}"), "list.txt:2: prompt");
  EXPECT_EQ(FieldOf("{\"prompt\": \"a\", \"messages\": []}"), "list.txt:2: prompt");
  EXPECT_EQ(FieldOf("{\"prompt\": \"a\", \"temperature\": 3}"), "list.txt:2: temperature");
  EXPECT_EQ(FieldOf("{\"prompt\": \"a\", \"max_tokens\": 64}"), "list.txt:2: max_tokens");
  EXPECT_EQ(FieldOf("{\"prompt\": \"a\", \"model\": \"another\"}"), "list.txt:2: model");
  EXPECT_EQ(FieldOf("{\"messages\": [{\"role\": \"cook\", \"content\": \"a\"}]}"), "list.txt:2: messages[0].role");
  EXPECT_EQ(FieldOf("{\"prompt\": [5000000]}"), "list.txt:2: prompt[0]");
  std::string many;
  for (int i = 0; i < 80; ++i) many += "z9 ";
  EXPECT_EQ(FieldOf(many), "list.txt:2: prompt");
}

TEST_F(PromptFileTest, LongLineIsReadWhole) {
  const std::string head = "{\"prompt\": \"the king\"" + std::string(200'000, ' ');
  const auto requests = Read(head + "}\n" + head + "}");
  ASSERT_TRUE(requests.ok()) << requests.error().ToString();
  ASSERT_EQ(requests->size(), 2U);
  EXPECT_EQ(requests->at(1).spec.generate.prompt, Tokens("the king"));
}

TEST_F(PromptFileTest, ListWithoutPromptAndALineWithoutEndAreErrors) {
  EXPECT_EQ(Read("").error().field, "list.txt");
  EXPECT_EQ(Read("\n\r\n").error().field, "list.txt");
  EXPECT_EQ(Read("a\n" + std::string(kMaxPromptLineBytes + 1, 'x')).error().field, "list.txt:2");
}

}  // namespace
}  // namespace roost::roostctl

#include "deploy/roostctl/prefix_diff.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "tests/support/source_dir.h"

namespace roost::roostctl {
namespace {

TEST(ComparePromptsTest, CountsFullBlocksAndTokensThatBothBeginWith) {
  const std::vector<TokenId> first{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<TokenId> second = first;
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_blocks, 2U);
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_tokens, 9U);
  second[5] = 60;
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_blocks, 1U);
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_tokens, 5U);
  second[0] = 10;
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_blocks, 0U);
  EXPECT_EQ(ComparePrompts(first, second, 4).shared_tokens, 0U);
}

TEST(ComparePromptsTest, AShorterPromptIsSharedToItsLastFullBlock) {
  const std::vector<TokenId> longer{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<TokenId> shorter{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(ComparePrompts(longer, shorter, 4).shared_blocks, 1U);
  EXPECT_EQ(ComparePrompts(shorter, longer, 4).shared_tokens, 6U);
  EXPECT_EQ(ComparePrompts({}, longer, 4).shared_tokens, 0U);
}

TEST(PromptBodyTest, IsATextOrMembersWithoutTheModel) {
  EXPECT_EQ(ParsePromptBody("a", "To be,\n").value().members, R"("prompt":"To be,\n")");
  EXPECT_EQ(ParsePromptBody("a", R"( [{"role":"user"}])").value().members, R"("messages":[{"role":"user"}])");
  const PromptBody body =
      ParsePromptBody("a", R"({"model":"m","messages":[1],"stream":true,"tools":[2],"cache_salt":"s"})").value();
  EXPECT_EQ(body.members, R"("messages":[1],"tools":[2],"cache_salt":"s")");
  EXPECT_EQ(body.cache_salt, "s");
}

TEST(PromptBodyTest, NamesTheFileThatIsWrong) {
  for (const char* text : {"", "  \n", "{\"messages\":", "{\"input\":\"x\"}"}) {
    const auto body = ParsePromptBody("b.json", text);
    ASSERT_FALSE(body.ok()) << text;
    EXPECT_EQ(body.error().field, "b.json");
  }
  EXPECT_EQ(ReadPromptBody("/nonexistent.json").error().field, "/nonexistent.json");
}

// One token per byte, in blocks of four.
class Bytes final : public PromptTokenizer {
 public:
  Result<std::vector<TokenId>> Tokenize(const PromptBody& body) override {
    return std::vector<TokenId>(body.members.begin(), body.members.end());
  }
  Result<std::string> Decode(std::span<const TokenId> tokens) override {
    return std::string(tokens.begin(), tokens.end());
  }
  Result<std::uint32_t> BlockTokens() override { return 4; }
};

std::string Describe(std::string first, std::string second, std::string salt = "") {
  Bytes tokenizer;
  const PromptBody a{.name = "a", .members = std::move(first), .cache_salt = {}};
  const PromptBody b{.name = "b", .members = std::move(second), .cache_salt = std::move(salt)};
  return DescribeDiff(tokenizer, a, b).value();
}

TEST(DescribeDiffTest, ShowsThePlaceAndTheTextOfBoth) {
  EXPECT_EQ(Describe("The day is Monday.", "The day is Friday. Good."),
            "a: 18 tokens in 4 full blocks of 4\n"
            "b: 24 tokens in 6 full blocks of 4\n"
            "both begin with the same 2 blocks (8 tokens) and 3 tokens more of the next\n"
            "they diverge in block 3, at token 12:\n"
            "  both  \"The day is \"\n"
            "  a     \"Monday.\"\n"
            "  b     \"Friday. Good.\"\n");
}

TEST(DescribeDiffTest, ShowsLongTextsInPart) {
  const std::string told = Describe(std::string(40, 'x') + std::string(40, 'a'), std::string(40, 'x'));
  EXPECT_NE(told.find("  both  …\"xxxxxxxxxxxx\"\n"), std::string::npos) << told;
  EXPECT_NE(told.find("  a     \"" + std::string(24, 'a') + "\"…\n"), std::string::npos) << told;
  EXPECT_NE(told.find("  b     (ends here)\n"), std::string::npos) << told;
}

TEST(DescribeDiffTest, SaysWhenThePromptsAreEqual) {
  const std::string told = Describe("12345", "12345");
  EXPECT_NE(
      told.find("both begin with the same 1 block (4 tokens) and 1 token more of the next\nthe prompts are equal"),
      std::string::npos)
      << told;
}

TEST(DescribeDiffTest, SaltsThatDifferShareNothing) {
  EXPECT_NE(Describe("12345", "12345", "s").find("their cache_salt differs, so they share no block"),
            std::string::npos);
}

// With the demo model's tokenizer and template.
class PrefixDiffTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path) << text;
    return path;
  }

  PrefixDiffOptions options_{.first = {},
                             .second = {},
                             .router = {},
                             .model = std::string(testing_support::SourceDir()) + "/deploy/demo-model"};
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(PrefixDiffTest, RendersAndTokenizesChatsAsARouterDoes) {
  const std::string system = R"({"role":"system","content":"Speak as a herald of the king, and be brief."})";
  options_.first = Write("first.json", R"({"messages":[)" + system + R"(,{"role":"user","content":"Monday"}]})");
  options_.second = Write("second.json", "[" + system + R"(,{"role":"user","content":"Friday"}])");
  ASSERT_EQ(RunPrefixDiff(options_, out_, err_), 0) << err_.str();
  EXPECT_NE(out_.str().find("<|im_end|>\\n<|im_start|>user\\n\"\n"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("first.json   \"Monday<|im_end|>"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("they diverge in block 2,"), std::string::npos) << out_.str();
}

TEST_F(PrefixDiffTest, NamesTheFileWhosePromptIsRefused) {
  options_.first = Write("text", "To be");
  options_.second = Write("wrong.json", R"({"messages":[{"role":"nobody","content":"x"}]})");
  EXPECT_EQ(RunPrefixDiff(options_, out_, err_), 1);
  EXPECT_NE(err_.str().find("wrong.json: messages[0].role"), std::string::npos) << err_.str();
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace roost::roostctl

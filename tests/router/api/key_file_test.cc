#include "router/api/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace roost::router {
namespace {

using ::testing::HasSubstr;

const std::string kDigest(64, 'a');

std::string Line(const std::string& members) { return R"({"name":"k","sha256":")" + kDigest + "\"" + members + "}"; }

TEST(KeyFileTest, ReadsEveryMember) {
  const auto keys = ParseKeyFile(
      "# who may call\n\n" +
          Line(
              R"(,"tenant":"acme","max_priority":70,"models":["qwen*","demo"],"model_aliases":{"gpt-4o":"demo"},"requests_per_minute":60,)"
              R"("tokens_per_minute":1000,"cached_token_weight":0.25,"max_concurrent_requests":4)") +
          "\r\n  {\"name\":\"other\",\"sha256\":\"" + std::string(64, 'B') + "\"}",
      "keys");
  ASSERT_TRUE(keys.ok()) << keys.error().ToString();
  ASSERT_EQ(keys->size(), 2U);
  const ApiKey& key = keys->front();
  EXPECT_EQ(key.tenant, "acme");
  EXPECT_EQ(key.max_priority, 70U);
  EXPECT_EQ(key.models, (std::vector<std::string>{"qwen*", "demo"}));
  EXPECT_EQ(key.model_aliases, (ModelAliases{{"gpt-4o", "demo"}}));
  EXPECT_EQ(key.limits, (KeyLimits{60, 1000, 4, 0.25}));
  EXPECT_EQ(HexOf(key.digest), kDigest);
  EXPECT_EQ(keys->back().tenant, "other");
  EXPECT_EQ(keys->back().limits, KeyLimits());
  EXPECT_EQ(keys->back().max_priority, 50U);
}

TEST(KeyFileTest, ALineThatIsWrittenReadsTheSame) {
  ApiKey key;
  key.name = "chat-app";
  key.tenant = "acme \"north\"";
  key.digest = DigestOfSecret("s");
  key.max_priority = 10;
  key.models = {"a", "b*"};
  key.model_aliases = {{"c", "a"}, {"d \"e\"", "b1"}};
  key.limits = {1, 2, 3, 0.1};
  const auto read = ParseKeyFile(KeyLine(key), "keys");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(KeyLine(read->front()), KeyLine(key));
  EXPECT_EQ(read->front().tenant, key.tenant);
  EXPECT_EQ(read->front().digest, key.digest);
}

TEST(KeyFileTest, ErrorsNameFileLineAndMember) {
  const std::pair<std::string, std::string> wrong[] = {
      {R"({"sha256":")" + kDigest + "\"}", "name"},
      {R"({"name":"a b","sha256":")" + kDigest + "\"}", "name"},
      {R"({"name":"k"})", "sha256"},
      {R"({"name":"k","sha256":"12"})", "sha256"},
      {R"({"name":"k","sha256":")" + std::string(64, 'g') + "\"}", "sha256"},
      {Line(R"(,"tenant":"")"), "tenant"},
      {Line(R"(,"tenant":"a\nb")"), "tenant"},
      {Line(R"(,"tenant":")" + std::string(201, 't') + "\""), "tenant"},
      {Line(R"(,"max_priority":101)"), "max_priority"},
      {Line(R"(,"models":[])"), "models"},
      {Line(R"(,"models":"demo")"), "models"},
      {Line(R"(,"model_aliases":["a"])"), "model_aliases"},
      {Line(R"(,"model_aliases":{"a":1})"), "model_aliases"},
      {Line(R"(,"model_aliases":{"a":""})"), "model_aliases"},
      {Line(R"(,"requests_per_minute":-1)"), "requests_per_minute"},
      {Line(R"(,"tokens_per_minute":1.5)"), "tokens_per_minute"},
      {Line(R"(,"cached_token_weight":1.01)"), "cached_token_weight"},
      {Line(R"(,"cached_token_weight":-0.1)"), "cached_token_weight"},
      {Line(R"(,"cached_token_weight":"0.1")"), "cached_token_weight"},
      {Line(R"(,"request_per_minute":5)"), "request_per_minute"},  // misspelt
      {"[]", ""},
      {"{", ""}};
  for (const auto& [line, member] : wrong) {
    const auto keys = ParseKeyFile("# a\n" + line, "keys.jsonl");
    ASSERT_FALSE(keys.ok()) << line;
    EXPECT_EQ(keys.error().field, "keys.jsonl:2") << line;
    EXPECT_THAT(keys.error().message, HasSubstr(member)) << line;
  }
}

TEST(KeyFileTest, NamesAndSecretsAreGivenOnce) {
  const std::string second = R"({"name":"l","sha256":")" + kDigest + "\"}";
  EXPECT_THAT(ParseKeyFile(Line("") + "\n" + Line(""), "f").error().message, HasSubstr("'k' is given twice"));
  EXPECT_THAT(ParseKeyFile(Line("") + "\n" + second, "f").error().message, HasSubstr("another key has it"));
}

TEST(KeyFileTest, AFileWithACommentAloneLetsNobodyInAndAnEmptyOneIsAnError) {
  const Result<std::vector<ApiKey>> nobody = ParseKeyFile("# nobody\n", "f");
  ASSERT_TRUE(nobody.ok());
  EXPECT_TRUE(nobody->empty());
  EXPECT_THAT(ParseKeyFile("\n", "f").error().message, HasSubstr("holds no key"));
  EXPECT_EQ(ReadKeyFile("/nonexistent/keys").error().field, "/nonexistent/keys");
}

}  // namespace
}  // namespace roost::router

#include "router/access/model_alias.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::router {
namespace {

TEST(ModelAliasTest, APartIsAnAliasAndItsModel) {
  const auto aliases = ParseModelAliases({"gpt-4o=Qwen/Qwen3-8B", "small=a=b"});
  ASSERT_TRUE(aliases.ok()) << aliases.error().ToString();
  EXPECT_EQ(*aliases, (ModelAliases{{"gpt-4o", "Qwen/Qwen3-8B"}, {"small", "a=b"}}));
}

TEST(ModelAliasTest, WrongPartsNameTheFlag) {
  const std::vector<std::vector<std::string>> wrong{{"gpt-4o"}, {"=m"},         {"a="},
                                                    {"a=b\n"},  {"a=b", "a=c"}, {std::string(5000, 'a') + "=b"}};
  for (const std::vector<std::string>& parts : wrong) {
    const auto aliases = ParseModelAliases(parts);
    ASSERT_FALSE(aliases.ok()) << parts.front();
    EXPECT_EQ(aliases.error().field, "model-alias");
  }
}

TEST(ModelAliasTest, ThereAreNotTooMany) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kMaxModelAliases; ++i) parts.push_back(std::to_string(i) + "=m");
  EXPECT_TRUE(ParseModelAliases(parts).ok());
  parts.emplace_back("more=m");
  EXPECT_FALSE(ParseModelAliases(parts).ok());
}

}  // namespace
}  // namespace roost::router

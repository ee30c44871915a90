#include "worker/adapters/events/cache_salt.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace roost::worker::adapters {
namespace {

constexpr BlockHash kSaltDefault{1, 2};
constexpr BlockHash kSaltRoot{0x0123456789abcdefULL, 0xfedcba9876543210ULL};
const std::string kSaltText = "roost:0123456789abcdeffedcba9876543210";

TEST(CacheSaltTest, TheDefaultRootNeedsNone) {
  EXPECT_EQ(SaltOf(kSaltDefault, std::nullopt, kSaltDefault), "");
  EXPECT_NE(SaltOf(kSaltDefault, OwnScope{1, kSaltRoot}, kSaltDefault), "");
}

TEST(CacheSaltTest, CarriesARoot) {
  EXPECT_EQ(SaltOf(kSaltRoot, std::nullopt, kSaltDefault), kSaltText);
  EXPECT_EQ(ParseSalt(kSaltText), (SaltedRoots{kSaltRoot, std::nullopt}));
}

TEST(CacheSaltTest, CarriesAnOwnScope) {
  const OwnScope own{70, {0, 5}};
  const std::string text = SaltOf(kSaltRoot, own, kSaltDefault);
  EXPECT_EQ(text, kSaltText + ":70:00000000000000000000000000000005");
  EXPECT_EQ(ParseSalt(text), (SaltedRoots{kSaltRoot, own}));
}

TEST(CacheSaltTest, TakesNothingElse) {
  const std::string own = kSaltText + ":70:00000000000000000000000000000005";
  std::vector<std::string> others{"",
                                  "grain",
                                  "roost:",
                                  kSaltText + ":",
                                  kSaltText + "0",
                                  " " + kSaltText,
                                  kSaltText + ":0:00000000000000000000000000000005",
                                  kSaltText + ":070:00000000000000000000000000000005",
                                  kSaltText + ":-1:00000000000000000000000000000005",
                                  kSaltText + ":4294967296:00000000000000000000000000000005",
                                  own + " ",
                                  "roost:0123456789ABCDEFfedcba9876543210",
                                  "roost:+123456789abcdeffedcba9876543210",
                                  "roost:0x23456789abcdeffedcba9876543210"};
  for (std::size_t size = 0; size < own.size(); ++size) {
    if (size != kSaltText.size()) others.push_back(own.substr(0, size));
  }
  for (const std::string& text : others) EXPECT_EQ(ParseSalt(text), std::nullopt) << text;
}

}  // namespace
}  // namespace roost::worker::adapters

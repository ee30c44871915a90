// The prefixes that requests find most often.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_travel.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

class MostUsedTest : public testing_support::PrefixCacheFixture {
 protected:
  MostUsedTest() { Make(64); }

  void VisitTimes(int times, std::string_view letters, BlockHash root = {1, 1}) {
    for (; times > 0; --times) Visit(letters, root);
  }
  std::vector<wire::UsedPrefix> MostUsed(std::uint32_t most) {
    return worker::MostUsed(cache().tree(), most, wire::PrefixTokens::kOmit);
  }
  wire::UsedPrefix Used(std::string_view letters, std::uint64_t hits, BlockHash root = {1, 1}) {
    return {.hash = User(letters, root).hashes.back(),
            .block_count = static_cast<std::uint32_t>(letters.size()),
            .hits = hits,
            .first_tokens = {},
            .last_tokens = {}};
  }
  using Prefixes = std::vector<wire::UsedPrefix>;
};

TEST_F(MostUsedTest, APrefixEndsWhereRequestsPart) {
  Visit("abc");  // stores the blocks
  VisitTimes(2, "abde");
  VisitTimes(2, "abc");
  EXPECT_EQ(MostUsed(10), (Prefixes{Used("ab", 4), Used("abc", 2), Used("abde", 1)}));
}

// Each piece is a request for the prefix so far.
TEST_F(MostUsedTest, APrefixThatWasComputedInPiecesIsOne) {
  for (const char* piece : {"a", "ab", "abc", "abcd"}) Visit(piece);
  EXPECT_EQ(MostUsed(10), Prefixes{Used("abc", 1)});
  VisitTimes(3, "abcdxyz");
  EXPECT_EQ(MostUsed(10), Prefixes{Used("abcdxyz", 2)});
}

TEST_F(MostUsedTest, WhatNobodyFoundIsNoPrefix) {
  EXPECT_TRUE(MostUsed(10).empty());
  Visit("abc");
  EXPECT_TRUE(MostUsed(10).empty());
}

TEST_F(MostUsedTest, TheMostUsedComeFirstAndTheOthersAreLeftOut) {
  VisitTimes(3, "a");
  VisitTimes(5, "b");
  VisitTimes(4, "cd", {7, 7});
  EXPECT_EQ(MostUsed(2), (Prefixes{Used("b", 4), Used("cd", 3, {7, 7})}));
  EXPECT_EQ(MostUsed(3).back(), Used("a", 2));
  EXPECT_EQ(MostUsed(1000).size(), 3U);
}

TEST_F(MostUsedTest, OfEquallyUsedOnesTheLongestIsFirst) {
  VisitTimes(2, "a");
  VisitTimes(2, "bcd");
  EXPECT_EQ(MostUsed(2), (Prefixes{Used("bcd", 1), Used("a", 1)}));
}

TEST_F(MostUsedTest, ABlockThatWasEvictedCountsAnew) {
  Make(2);
  VisitTimes(5, "a");
  EXPECT_EQ(Take(2), "a");
  GiveBack();
  GiveBack();
  VisitTimes(2, "a");
  EXPECT_EQ(MostUsed(2), Prefixes{Used("a", 1)});
}

TEST_F(MostUsedTest, TokensAreThoseOfTheFirstAndTheLastBlock) {
  VisitTimes(2, "abc");
  VisitTimes(2, "z");
  const Prefixes told = worker::MostUsed(cache().tree(), 2, wire::PrefixTokens::kTell);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].first_tokens, Tokens("a"));
  EXPECT_EQ(told[0].last_tokens, Tokens("c"));
  EXPECT_TRUE(told[1].first_tokens.empty());
  EXPECT_EQ(told[1].last_tokens, Tokens("z"));
}

TEST_F(MostUsedTest, PrefixesThatDoNotFitTheAnswerAreLeftOut) {
  VisitTimes(4, "abcd");
  VisitTimes(3, "wxyz");
  VisitTimes(2, "k");
  Pass(std::chrono::seconds(3));
  Prefixes told = MostUsed(10);
  DescribePrefixes(cache(), 6, told);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].hashes, Hashes("abcd"));
  EXPECT_EQ(told[0].root, (BlockHash{1, 1}));
  EXPECT_EQ(told[0].own, std::nullopt);
  EXPECT_EQ(told[0].tenant, "");
  EXPECT_EQ(told[0].age_ms, 3000U);
  EXPECT_EQ(told[1].hashes, Hashes("k"));
  EXPECT_TRUE(told[1].first_tokens.empty());
}

// Many long prefixes with equal fronts: the walks to the front stop when they would take too long.
TEST_F(MostUsedTest, TheWayToTheFrontIsBounded) {
  constexpr std::uint32_t kLong = 400;
  constexpr std::uint32_t kBranches = 200;
  static_assert(kLong * kBranches > kMaxFrontSteps);
  Make(kLong + kBranches + 1);
  std::vector<TokenId> tokens((kLong + 1) * testing_support::kLetterTokens, 1);
  for (std::uint32_t branch = 0; branch < kBranches; ++branch) {
    tokens.back() = 2 + branch;
    for (int visit = 0; visit < 2; ++visit) {
      testing_support::CacheUser user({1, 1}, tokens, testing_support::kLetterTokens);
      (void)user.Use(cache());
      user.Release(cache());
    }
  }
  const Prefixes told = worker::MostUsed(cache().tree(), 1000, wire::PrefixTokens::kTell);
  ASSERT_EQ(told.size(), kBranches + 1);
  EXPECT_FALSE(told[1].first_tokens.empty());
  EXPECT_TRUE(told.back().first_tokens.empty());
  EXPECT_FALSE(told.back().last_tokens.empty());
}

}  // namespace
}  // namespace roost::worker

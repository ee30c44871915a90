// Tails: a block that continues like the prompt, but not to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/cache/prefix_cache_fixture.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;
using testing_support::kLetterTokens;

class PrefixCacheTailTest : public testing_support::PrefixCacheFixture {
 protected:
  // The number of tokens of a tail that the cache finds after the user's blocks, all of which it holds.
  std::uint32_t TailOf(const CacheUser& user, std::uint32_t limit = kLetterTokens) {
    const std::optional<TailMatch> tail = cache().FindTail(user.chain(), user.blocks, limit);
    return tail ? tail->token_count : 0;
  }
  // "ab" whose second block differs from token `differing` on.
  CacheUser AlmostAb(std::size_t differing, BlockHash root = {1, 1}) {
    std::vector<TokenId> tokens = Tokens("ab");
    for (std::size_t i = kLetterTokens + differing; i < tokens.size(); ++i) tokens[i] += 5000;
    return {root, std::move(tokens), kLetterTokens};
  }
};

TEST_F(PrefixCacheTailTest, AfterAMatchTheCommonTokensOfTheNextBlockAreFound) {
  Visit("ab");
  for (std::uint32_t common = 0; common < kLetterTokens; ++common) {
    CacheUser user = AlmostAb(common);
    EXPECT_EQ(user.Match(cache()), 1U);
    EXPECT_EQ(TailOf(user), common);
    user.Release(cache());
  }
}

TEST_F(PrefixCacheTailTest, TheTailIsABlockThatCanBeHeld) {
  Visit("ab");
  CacheUser user = AlmostAb(3);
  user.Match(cache());
  const TailMatch tail = cache().FindTail(user.chain(), user.blocks, 4).value();
  EXPECT_EQ(tail.block.block, Refs("ab")[1].block);
  cache().Acquire(tail.block);
  EXPECT_EQ(Take(8), "");
  cache().Release(tail.block.block, {});
  EXPECT_EQ(Take(1), "b");
  user.Release(cache());
}

TEST_F(PrefixCacheTailTest, TheLimitCutsTheTail) {
  Visit("ab");
  CacheUser user = AlmostAb(3);
  user.Match(cache());
  EXPECT_EQ(TailOf(user, 2), 2U);
  EXPECT_EQ(TailOf(user, 0), 0U);
  user.Release(cache());
}

TEST_F(PrefixCacheTailTest, APromptThatEndsWithinABlockFindsItsTail) {
  Visit("ab");
  CacheUser user = User("ab");
  user.tokens.resize(6);
  user.hashes.resize(1);
  user.Match(cache());
  EXPECT_EQ(TailOf(user), 2U);
  user.Release(cache());
}

TEST_F(PrefixCacheTailTest, APromptThatEndsWithABlockHasNoTail) {
  Visit("ab");
  CacheUser user = User("a");
  user.Match(cache());
  EXPECT_EQ(TailOf(user), 0U);
  user.Release(cache());
}

TEST_F(PrefixCacheTailTest, FirstBlocksHaveTailsTooInTheirScopeOnly) {
  Visit("a", {1, 1});
  CacheUser user = User("a", {1, 1});
  user.tokens.resize(3);
  user.hashes.clear();
  EXPECT_EQ(TailOf(user), 3U);
  for (const BlockHash other : {BlockHash{0, 0}, BlockHash{1, 0}, BlockHash{1, 2}, BlockHash{2, 1}}) {
    user.root = other;
    EXPECT_EQ(TailOf(user), 0U);
  }
}

// Two tenants share blocks a and b; what follows is their own.
class SharedFrontTest : public PrefixCacheTailTest {
 protected:
  CacheUser Of(std::string_view prompt, BlockHash tenant) {
    CacheUser user = User(prompt);
    user.own = OwnScope{2, OwnRoot(tenant, user.hashes[1])};
    user.hashes = HashBlocks(user.root, user.own, user.tokens, kLetterTokens);
    return user;
  }
  const BlockHash hens_{7, 7};
  const BlockHash ducks_{8, 8};
};

TEST_F(SharedFrontTest, OnlyTheSharedBlocksAreFoundByAnotherTenant) {
  CacheUser hens = Of("abcd", hens_);
  EXPECT_EQ(hens.Use(cache()), 0U);
  CacheUser ducks = Of("abcd", ducks_);
  EXPECT_EQ(ducks.Match(cache()), 2U);
  EXPECT_EQ(TailOf(ducks), 0U);  // block c is there, of the hens
  ducks.Release(cache());
  CacheUser others = User("abcd");
  EXPECT_EQ(others.Match(cache()), 2U);
  EXPECT_EQ(TailOf(others), 0U);
  others.Release(cache());
  CacheUser more_hens = Of("abcd", hens_);
  EXPECT_EQ(more_hens.Match(cache()), 4U);
  ExpectSound({&hens, &more_hens});
  more_hens.Release(cache());
  hens.Release(cache());
}

TEST_F(SharedFrontTest, EachTenantKeepsItsOwnBlocksBehindTheSharedOnes) {
  for (const BlockHash tenant : {hens_, ducks_}) {
    CacheUser user = Of("abcd", tenant);
    user.Use(cache());
    user.Release(cache());
  }
  EXPECT_EQ(cache().ready_count(), 6U);  // a and b once, c and d of each
  for (const BlockHash tenant : {hens_, ducks_}) {
    CacheUser user = Of("abcd", tenant);
    EXPECT_EQ(user.Match(cache()), 4U);
    user.Release(cache());
    CacheUser shorter = Of("abc", tenant);
    shorter.tokens.resize(10);
    shorter.hashes.resize(2);
    shorter.Match(cache());
    EXPECT_EQ(TailOf(shorter), 2U);  // of its own block c
    shorter.Release(cache());
  }
  ExpectSound({});
}

TEST_F(PrefixCacheTailTest, AnEvictedBlockIsNoTail) {
  Visit("ab");
  CacheUser user = AlmostAb(3);
  user.Match(cache());
  EXPECT_EQ(Take(7), "b");
  EXPECT_EQ(TailOf(user), 0U);
  user.Release(cache());
}

// Children of one block, and as many first blocks: the best of them is found wherever it is.
TEST_F(PrefixCacheTailTest, OfAThousandBlocksTheOneWithTheLongestCommonPrefixIsFound) {
  constexpr std::uint32_t kBlocks = 1000;
  for (const std::string_view front : {"", "a"}) {
    SCOPED_TRACE(front);
    Make(2 * kBlocks);
    Rng rng(1);
    const auto random_prompt = [&] {
      std::vector<TokenId> tokens = Tokens(front);
      for (std::uint32_t i = 0; i < kLetterTokens; ++i) {
        tokens.push_back(static_cast<TokenId>(rng.Below(12)));
      }
      return CacheUser({1, 1}, std::move(tokens), kLetterTokens);
    };
    std::vector<std::vector<TokenId>> stored;
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      CacheUser user = random_prompt();
      user.Use(cache());
      user.Release(cache());
      stored.push_back(user.tokens);
    }
    for (int i = 0; i < 1000; ++i) {
      CacheUser user = random_prompt();
      user.hashes.resize(front.size());
      user.Match(cache());
      std::ptrdiff_t longest = 0;
      for (const std::vector<TokenId>& tokens : stored) {
        const auto end = std::mismatch(tokens.begin(), tokens.end(), user.tokens.begin()).first;
        longest = std::max(longest, end - tokens.begin());
      }
      ASSERT_EQ(TailOf(user) + front.size() * kLetterTokens, static_cast<std::size_t>(longest));
      user.Release(cache());
    }
  }
}

}  // namespace
}  // namespace roost::worker

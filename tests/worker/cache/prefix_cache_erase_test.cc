// Prompts and tenants that are erased on demand.
#include <gtest/gtest.h>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_eraser.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;
using testing_support::kLetterTokens;

class PrefixCacheEraseTest : public testing_support::PrefixCacheFixture {
 protected:
  static constexpr std::uint32_t kAll = 1000;

  EraseStep Erase(const CacheUser& prompt) {
    EraseStep step{.budget = kAll};
    EXPECT_EQ(CacheEraser(cache()).ErasePrompt(prompt.chain(), step), EraseProgress::kComplete);
    return step;
  }
  EraseStep Erase(std::string_view letters) { return Erase(User(letters)); }
  EraseStep Erase(TenantId tenant) {
    EraseStep step{.budget = kAll};
    EXPECT_EQ(CacheEraser(cache()).EraseTenant(tenant, step), EraseProgress::kComplete);
    return step;
  }
  EraseStep EraseChain(std::span<const BlockHash> chain) {
    EraseStep step{.budget = kAll};
    EXPECT_EQ(CacheEraser(cache()).EraseChain(chain, step), EraseProgress::kComplete);
    return step;
  }
  void VisitAsTenant(TenantId tenant, std::string_view letters, BlockHash root) {
    CacheUser user = User(letters, root);
    user.tenant = tenant;
    (void)user.Use(cache());
    user.Release(cache());
  }
  // A prompt that ends within a block, of which `rest` tokens are equal to the letter's.
  CacheUser Part(std::string_view letters, std::uint32_t rest) {
    CacheUser user = User(letters);
    user.tokens.resize((letters.size() - 1) * kLetterTokens + rest);
    user.hashes.resize(letters.size() - 1);
    return user;
  }
  void VisitPart(std::string_view letters, std::uint32_t rest) {
    CacheUser user = Part(letters, rest);
    (void)user.Use(cache());
    user.blocks.push_back(cache().Allocate().value());
    cache().StorePartial(user.chain(), user.blocks, rest, user.group);
    user.Release(cache());
  }
};

TEST_F(PrefixCacheEraseTest, TakesWhatContinuesThePromptAndWhatOnlyItHas) {
  Visit("abcd");
  Visit("abxy");
  const EraseStep step = Erase("abc");
  EXPECT_EQ(step.freed, 2U);
  EXPECT_EQ(step.busy, 0U);
  EXPECT_EQ(Cached("abcd"), 2U);
  EXPECT_EQ(Cached("abxy"), 4U);
  EXPECT_EQ(Erase("abxy").freed, 4U);  // nothing else needs "ab" any more
  EXPECT_EQ(pool().free_count(), 8U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, WhatIsInUseIsNotMatchedAnyMoreAndFreeWithItsLastUser) {
  CacheUser user = User("abc");
  user.Use(cache());
  const EraseStep step = Erase("abc");
  EXPECT_EQ(step.freed, 0U);
  EXPECT_EQ(step.busy, 3U);
  EXPECT_EQ(Cached("abc"), 0U);
  EXPECT_EQ(pool().free_count(), 5U);
  ExpectSound({&user});
  user.Release(cache());
  EXPECT_EQ(pool().free_count(), 8U);
  EXPECT_EQ(cache().ready_count(), 0U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, IsToldBackToFrontAndIsNoEviction) {
  Visit("abc");
  (void)cache().TakeEvents();
  Erase("abc");
  std::vector<BlockHash> removed;
  for (const wire::CacheEvent& event : cache().TakeEvents()) {
    removed.insert(removed.end(), event.removed.begin(), event.removed.end());
  }
  const std::vector<BlockHash> hashes = Hashes("abc");
  EXPECT_EQ(removed, std::vector<BlockHash>(hashes.rbegin(), hashes.rend()));
  EXPECT_EQ(cache().digest(), BlockHash());
  EXPECT_EQ(cache().counters().evicted_blocks, 0U);
}

TEST_F(PrefixCacheEraseTest, NothingSaysThatThePromptWasHere) {
  Visit("abcd");
  Visit("abcd");
  ASSERT_EQ(Take(5), "d");  // evicted before
  EXPECT_TRUE(cache().WasEvicted(Hashes("abcd").back()));
  Erase("abcd");
  for (const BlockHash hash : Hashes("abcd")) EXPECT_FALSE(cache().WasEvicted(hash));
  EXPECT_TRUE(MostUsed(cache().tree(), 10, wire::PrefixTokens::kTell).empty());
  EXPECT_EQ(cache().ready_count(), 0U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, OfAPromptThatIsThereInPartThePartGoes) {
  Visit("abc");
  EXPECT_EQ(Erase("abcde").freed, 3U);
  Visit("abc");
  Visit("abx");
  EXPECT_EQ(Erase("abde").freed, 0U);  // "ab" is of other prompts
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, IsStrongerThanAPin) {
  Visit("abc");
  cache().claims().Pin(Hashes("abcd"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  EXPECT_EQ(Erase("abcd").freed, 3U);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  ExpectSound();
  Visit("abcd");
  EXPECT_EQ(cache().claims().pinned_count(), 0U);  // no pin waits for it either
}

TEST_F(PrefixCacheEraseTest, APinnedFrontStaysIfAnotherPromptContinuesIt) {
  Visit("abc");
  Visit("abx");
  cache().claims().Pin(Hashes("ab"), std::nullopt);
  EXPECT_EQ(Erase("abc").freed, 1U);
  EXPECT_EQ(cache().claims().pinned_count(), 2U);
  EXPECT_EQ(Erase("abx").freed, 3U);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, EndsThePinsOfWhatContinuesThePrompt) {
  Visit("abc");
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  EXPECT_EQ(Erase("a").freed, 3U);
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  Visit("abc");
  EXPECT_EQ(cache().claims().pinned_count(), 0U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, TakesPartialBlocksThatHoldNothingButThePrompt) {
  Visit("a");
  VisitPart("ab", 1);
  VisitPart("ab", 3);
  VisitPart("ax", 2);
  EXPECT_EQ(pool().free_count(), 5U);
  EXPECT_EQ(Erase("ab").freed, 1U);  // "a" stays for the one with "x"
  EXPECT_EQ(pool().free_count(), 6U);
  EXPECT_EQ(Erase(Part("ax", 2)).freed, 2U);  // the last full block is "a"
  EXPECT_EQ(pool().free_count(), 8U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, OfAPromptShorterThanABlockAllThatBeginsWithItGoes) {
  VisitPart("a", 1);
  Visit("ab");
  VisitPart("x", 3);
  const std::uint32_t before = pool().free_count();
  EXPECT_EQ(Erase(Part("a", 2)).freed, 8 - before - 1);
  EXPECT_EQ(Cached("ab"), 0U);
  EXPECT_EQ(pool().free_count(), 7U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, OtherScopesKeepTheirs) {
  Visit("abc", {1, 1});
  Visit("abc", {1, 2});
  EXPECT_EQ(Erase("abc").freed, 3U);
  EXPECT_EQ(Cached("abc", {1, 2}), 3U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, AStepKeepsToItsBudgetAndTheTreeIsSoundAfterEach) {
  Visit("abcd");
  Visit("abxy");
  const CacheUser prompt = User("a");
  std::uint32_t freed = 0;
  for (EraseProgress progress = EraseProgress::kUnfinished; progress == EraseProgress::kUnfinished;) {
    EraseStep step{.budget = 2};
    progress = CacheEraser(cache()).ErasePrompt(prompt.chain(), step);
    EXPECT_LE(step.freed, 2U);
    freed += step.freed;
    ExpectSound();
  }
  EXPECT_EQ(freed, 6U);
}

TEST_F(PrefixCacheEraseTest, ABlockGoesWithWhatContinuesItAndWithItsFrontThatNothingElseNeeds) {
  Visit("abcd");
  Visit("abxy");
  Visit("abc");
  const std::vector<BlockHash> chain = CacheEraser(cache()).ChainTo(User("abc").hashes.back());
  EXPECT_EQ(chain, User("abc").hashes);
  cache().claims().Pin(chain, std::nullopt);
  EXPECT_EQ(EraseChain(chain).freed, 2U);
  EXPECT_EQ(Cached("abcd"), 2U);
  EXPECT_EQ(Cached("abxy"), 4U);
  EXPECT_EQ(cache().claims().PinsOf(std::span(chain).last(1)).awaited, 0U);  // its pin is gone with it
  EXPECT_EQ(CacheEraser(cache()).ChainTo(chain.back()), std::vector{chain.back()});
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, ABlockThatIsNotThereLosesItsPin) {
  const std::vector<BlockHash> chain = CacheEraser(cache()).ChainTo(User("abc").hashes.back());
  cache().claims().Pin(chain, std::nullopt);
  EXPECT_EQ(cache().claims().PinsOf(chain).awaited, 1U);
  EXPECT_EQ(EraseChain(chain).freed, 0U);
  EXPECT_EQ(cache().claims().PinsOf(chain).awaited, 0U);
}

// The block is gone before its front is: later calls find what is left of the chain.
TEST_F(PrefixCacheEraseTest, ABlocksErasureGoesOnAfterAPause) {
  Visit("abcdef");
  const std::vector<BlockHash> chain = CacheEraser(cache()).ChainTo(User("abcde").hashes.back());
  std::uint32_t freed = 0;
  int calls = 0;
  for (EraseProgress progress = EraseProgress::kUnfinished; progress == EraseProgress::kUnfinished; ++calls) {
    EraseStep step{.budget = 2};
    progress = CacheEraser(cache()).EraseChain(chain, step);
    freed += step.freed;
    ExpectSound();
  }
  EXPECT_EQ(freed, 6U);
  EXPECT_GE(calls, 3);
}

TEST_F(PrefixCacheEraseTest, OfATenantAllGoesWithAllThatContinuesIt) {
  const TenantId a = cache().tenants().Join("a");
  const TenantId b = cache().tenants().Join("b");
  VisitAsTenant(a, "ab", {1, 1});
  VisitAsTenant(b, "xy", {1, 2});
  VisitAsTenant(b, "abc", {1, 1});  // continues what a computed
  VisitAsTenant(a, "x", {1, 1});
  EXPECT_EQ(Erase(a).freed, 4U);
  EXPECT_EQ(Cached("xy", {1, 2}), 2U);
  EXPECT_EQ(Cached("abc"), 0U);
  EXPECT_EQ(Erase(TenantId()).freed, 0U);
  EXPECT_EQ(Erase(b).freed, 2U);
  EXPECT_EQ(pool().free_count(), 8U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, OfATenantWithinAnothersPromptOnlyItsPartGoes) {
  const TenantId a = cache().tenants().Join("a");
  const TenantId b = cache().tenants().Join("b");
  VisitAsTenant(a, "ab", {1, 1});
  VisitAsTenant(b, "abc", {1, 1});
  EXPECT_EQ(Erase(b).freed, 1U);
  EXPECT_EQ(Cached("abc"), 2U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, APrefixThatAllTenantsShareIsNobodys) {
  const TenantId a = cache().tenants().Join("a");
  const TenantId b = cache().tenants().Join("b");
  const auto user_of = [this](TenantId tenant, std::string_view letters) {
    CacheUser user = User(letters);
    user.tenant = tenant;
    user.own = OwnScope{2, {9, tenant.value()}};
    user.hashes = HashBlocks(user.root, user.own, user.tokens, kLetterTokens);
    return user;
  };
  for (const TenantId tenant : {a, b}) {
    CacheUser user = user_of(tenant, "abcd");
    (void)user.Use(cache());
    user.Release(cache());
  }
  EXPECT_EQ(cache().ready_count(), 6U);
  EXPECT_EQ(Erase(a).freed, 2U);
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound();
  EXPECT_EQ(Erase(user_of(b, "abc")).freed, 4U);  // no other user needs the shared front now
  EXPECT_EQ(cache().ready_count(), 0U);
  ExpectSound();
}

TEST_F(PrefixCacheEraseTest, ATenantsNumberGoesWithItsLastBlock) {
  const TenantId a = cache().tenants().Join("a");
  VisitAsTenant(a, "ab", {1, 1});
  cache().tenants().Leave(a);
  EXPECT_EQ(cache().tenants().Find("a"), a);
  Erase(a);
  EXPECT_EQ(cache().tenants().Find("a"), std::nullopt);
}

}  // namespace
}  // namespace roost::worker

// Blocks that turn out to be wrong leave the tree at once, even while requests hold them.
#include <gtest/gtest.h>

#include "tests/worker/cache/prefix_cache_fixture.h"
#include "worker/cache/cache_eraser.h"
#include "worker/cache/prefix_cache.h"

namespace roost::worker {
namespace {

using testing_support::CacheUser;
using testing_support::kLetterTokens;

class PrefixCacheDiscardTest : public testing_support::PrefixCacheFixture {
 protected:
  void Discard(std::string_view letters, std::uint32_t first) {
    CacheEraser(cache()).Discard(User(letters).chain(), first);
  }
};

TEST_F(PrefixCacheDiscardTest, TakesAllThatStandsBehindToo) {
  Visit("abcd");
  Visit("abxy");
  Visit("az");
  Discard("abcd", 1);
  EXPECT_EQ(Cached("abcd"), 1U);
  EXPECT_EQ(Cached("abxy"), 1U);
  EXPECT_EQ(Cached("az"), 2U);
  EXPECT_EQ(pool().free_count(), 6U);
  ExpectSound();
  EXPECT_EQ(Take(8), "za");
}

TEST_F(PrefixCacheDiscardTest, WhatIsHeldIsFreedWithItsLastHolder) {
  CacheUser one = User("abc");
  one.Use(cache());
  CacheUser other = User("abd");
  other.Use(cache());
  Discard("abc", 1);
  EXPECT_EQ(Cached("abc"), 1U);
  EXPECT_TRUE(cache().IsReady(other.blocks[0]));
  EXPECT_FALSE(cache().IsReady(other.blocks[1]));
  EXPECT_FALSE(cache().IsReady(other.blocks[2]));
  ExpectSound({&one, &other});
  one.Release(cache());
  EXPECT_EQ(pool().free_count(), 5U);
  ExpectSound({&other});
  other.Release(cache());
  EXPECT_EQ(pool().free_count(), 7U);
  ExpectSound();
}

TEST_F(PrefixCacheDiscardTest, TellsOfItBackToFrontAndNotAsEvictions) {
  Visit("abc");
  (void)cache().TakeEvents();
  Discard("abc", 0);
  std::vector<BlockHash> removed;
  for (const wire::CacheEvent& event : cache().TakeEvents()) {
    removed.insert(removed.end(), event.removed.begin(), event.removed.end());
  }
  const std::vector<BlockHash> hashes = Hashes("abc");
  EXPECT_EQ(removed, std::vector<BlockHash>(hashes.rbegin(), hashes.rend()));
  EXPECT_EQ(cache().digest(), BlockHash());
  EXPECT_EQ(cache().counters().evicted_blocks, 0U);
  EXPECT_FALSE(cache().WasEvicted(hashes[0]));
}

TEST_F(PrefixCacheDiscardTest, WhoWantedABlockMayTakeThatBack) {
  CacheUser user = User("ab");
  user.Use(cache());
  const std::vector<BlockRef> refs = Refs("ab");
  for (const BlockRef ref : refs) cache().Want(ref);
  Discard("ab", 0);
  for (const BlockRef ref : refs) cache().Unwant(ref);
  ExpectSound({&user});
  user.Release(cache());
  EXPECT_EQ(pool().free_count(), 8U);
}

TEST_F(PrefixCacheDiscardTest, APinHoldsForWhatComesInItsPlace) {
  Visit("abc");
  cache().claims().Pin(Hashes("abc"), std::nullopt);
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  Discard("abc", 1);
  EXPECT_EQ(cache().claims().pinned_count(), 1U);
  ExpectSound();
  Visit("abc");
  EXPECT_EQ(cache().claims().pinned_count(), 3U);
  ExpectSound();
}

TEST_F(PrefixCacheDiscardTest, APartialBlockThatBeginsLikeTheRestGoesToo) {
  CacheUser part = User("ab");
  part.tokens.resize(kLetterTokens + 2);
  part.hashes.resize(1);
  part.Use(cache());
  part.blocks.push_back(cache().Allocate().value());
  cache().StorePartial(part.chain(), part.blocks, 2, part.group);
  part.Release(cache());
  EXPECT_EQ(pool().free_count(), 6U);
  Discard("ax", 1);
  EXPECT_EQ(pool().free_count(), 6U);
  CacheEraser(cache()).Discard(part.chain(), 1);
  EXPECT_EQ(pool().free_count(), 7U);
  EXPECT_EQ(Cached("a"), 1U);
  ExpectSound();
}

TEST_F(PrefixCacheDiscardTest, OfWhatIsNotThereNothingHappens) {
  Visit("ab");
  Discard("abc", 2);
  Discard("xyz", 0);
  EXPECT_EQ(Cached("ab"), 2U);
  ExpectSound();
}

}  // namespace
}  // namespace roost::worker

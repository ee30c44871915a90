// A tenant's limit of retention: its share of the pool, what counts towards it, and when it is given back. (Retention's
// effect on the order of evictions: prefix_cache_keeping_test.cc.)
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tests/worker/cache/prefix_cache_fixture.h"

namespace roost::worker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class CacheRetentionTest : public testing_support::PrefixCacheFixture {
 protected:
  CacheRetentionTest() { Make(16, {.retained_share_limit = 0.25}); }  // four blocks for each tenant

  TenantId Tenant(std::string_view name) { return cache().tenants().Join(name); }
  // A request of the tenant that asks for a high priority of its prompt's blocks, its answer's, or both. The first
  // `prompt_blocks` are the prompt.
  void VisitFor(TenantId tenant, std::string_view letters, RequestRetention retention,
                std::uint32_t prompt_blocks = 99) {
    testing_support::CacheUser user = User(letters, {3, tenant.value()});
    user.tenant = tenant;
    (void)user.Use(cache());
    retention.tenant = tenant;
    user.Release(cache(), {.prompt_token_count = prompt_blocks * testing_support::kLetterTokens}, retention);
    ExpectSound();
  }
  // A request of the tenant that asks for a lifetime of all its blocks, a minute after the one before.
  void VisitAlive(TenantId tenant, std::string_view letters, Duration lifetime = hours(1)) {
    Pass(seconds(60));
    testing_support::CacheUser user = User(letters, {3, tenant.value()});
    (void)user.Use(cache());
    const std::vector<FrontLifetime> lifetimes = {{static_cast<std::uint32_t>(letters.size()), lifetime}};
    user.Release(cache(), {}, {.prompt = {}, .decode = {}, .tenant = tenant}, lifetimes);
    ExpectSound();
  }
  [[nodiscard]] std::uint32_t CachedOf(TenantId tenant, std::string_view letters) {
    return Cached(letters, {3, tenant.value()});
  }
  [[nodiscard]] BlockRetention High(Duration duration = hours(1)) const {
    return {.priority = 100, .end = After(duration)};
  }
  [[nodiscard]] RequestRetention All(Duration duration = hours(1)) const { return {High(duration), High(duration)}; }
};

TEST_F(CacheRetentionTest, ATenantsHintsFillItsShareAndNoMore) {
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "ab", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 2U);
  VisitFor(alice, "cdef", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  EXPECT_EQ(cache().counters().refused_retentions, 2U);
  VisitFor(alice, "g", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  EXPECT_EQ(cache().counters().refused_retentions, 3U);
}

TEST_F(CacheRetentionTest, TheFrontOfALongPrefixIsRetainedAndItsEndGoesFirst) {
  VisitFor(Tenant("alice"), "abcdef", All());
  (void)Take(10);
  EXPECT_EQ(Take(2), "fe");
  EXPECT_EQ(cache().claims().retained_count(), 4U);
}

TEST_F(CacheRetentionTest, OneTenantsFloodLeavesAnothersBlocks) {
  const TenantId bob = Tenant("bob");
  VisitFor(bob, "ABCDEFGH", {});
  const TenantId alice = Tenant("alice");
  for (const std::string_view letters : {"ab", "cd", "ef", "gh", "ij", "kl", "mn"}) {
    VisitFor(alice, letters, All(hours(24)));
    VisitFor(bob, "ABCDEFGH", {});
  }
  EXPECT_EQ(Cached("ABCDEFGH", {3, bob.value()}), 8U);
}

TEST_F(CacheRetentionTest, BlocksBeforeARetainedOneCountToo) {
  const TenantId alice = Tenant("alice");
  // Only the answer is retained: its one block keeps the three before it.
  VisitFor(alice, "abcd", {.prompt = {}, .decode = High()}, 3);
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  VisitFor(alice, "efg", {.prompt = {}, .decode = High()}, 2);
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  EXPECT_EQ(cache().counters().refused_retentions, 1U);
}

TEST_F(CacheRetentionTest, AnEndedHintCountsWhileALaterBlockIsRetained) {
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "abc", {.prompt = High(seconds(1)), .decode = High(hours(1))}, 2);
  Pass(seconds(2));
  EXPECT_EQ(cache().claims().retained_count(alice), 3U);
  ExpectSound();
  Pass(hours(2));
  EXPECT_EQ(cache().claims().retained_count(alice), 0U);
  ExpectSound();
}

TEST_F(CacheRetentionTest, ABlockThatTwoRequestsRetainCountsOnce) {
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "abc", All());
  VisitFor(alice, "abd", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  VisitFor(alice, "abd", All(hours(5)));
  EXPECT_EQ(cache().counters().refused_retentions, 0U) << "a block that is retained may be for longer";
}

TEST_F(CacheRetentionTest, WhatEndsOrIsEvictedGivesItsRoomBack) {
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "abcd", All(seconds(10)));
  Pass(seconds(11));
  EXPECT_EQ(cache().claims().retained_count(alice), 0U);
  VisitFor(alice, "efgh", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  (void)Take(16);
  EXPECT_EQ(cache().claims().retained_count(alice), 0U);
  EXPECT_EQ(cache().claims().retained_count(), 0U);
}

TEST_F(CacheRetentionTest, ASessionThatComesBackGivesItsRoomBack) {
  const TenantId alice = Tenant("alice");
  const RequestRetention retention = All(seconds(10));
  VisitFor(alice, "abcd", retention);
  cache().EndRetention(Refs("abcd", {3, alice.value()}).back(), retention);
  EXPECT_EQ(cache().claims().retained_count(alice), 0U);
  ExpectSound();
}

TEST_F(CacheRetentionTest, RequestsWithoutATenantAreOne) {
  for (const std::string_view letters : {"ab", "cd", "ef"}) VisitRetained(letters, 100, hours(1));
  EXPECT_EQ(cache().claims().retained_count(TenantId()), 4U);
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "gh", All());
  EXPECT_EQ(cache().claims().retained_count(alice), 2U) << "another tenant has its own share";
}

TEST_F(CacheRetentionTest, AllTenantsTogetherRetainHalfOfThePool) {
  VisitFor(Tenant("alice"), "abcd", All(seconds(10)));
  VisitFor(Tenant("bob"), "efg", All());
  const TenantId carol = Tenant("carol");
  VisitFor(carol, "hij", All());
  EXPECT_EQ(cache().claims().retained_count(carol), 1U);
  EXPECT_EQ(cache().claims().retained_count(), 8U);
  EXPECT_EQ(cache().counters().refused_retentions, 2U);
  Pass(seconds(11));
  VisitFor(carol, "hij", All());
  EXPECT_EQ(cache().claims().retained_count(carol), 3U) << "what has ended makes room";
}

TEST_F(CacheRetentionTest, ALowPriorityNeedsNoRoom) {
  VisitRetained("abcdef", 10, hours(1));
  EXPECT_EQ(cache().claims().retained_count(), 0U);
  EXPECT_EQ(cache().counters().refused_retentions, 0U);
  ExpectSound();
}

// ---- lifetimes ----

// Four blocks. Others take twelve, that is all the rest.
TEST_F(CacheRetentionTest, ANewLifetimeTakesTheRoomOfTheOneThatWasUnusedForLongest) {
  const TenantId alice = Tenant("alice");
  VisitAlive(alice, "ab");
  VisitAlive(alice, "cd");
  VisitAlive(alice, "ab");
  VisitAlive(alice, "ef");
  EXPECT_EQ(cache().claims().retained_count(alice), 4U);
  EXPECT_EQ(cache().counters().refused_retentions, 2U);
  (void)Take(12);
  EXPECT_EQ(CachedOf(alice, "ab"), 2U);
  EXPECT_EQ(CachedOf(alice, "cd"), 0U);
  EXPECT_EQ(CachedOf(alice, "ef"), 2U);
}

TEST_F(CacheRetentionTest, OfAPrefixTheEndGivesWayFirst) {
  const TenantId alice = Tenant("alice");
  VisitAlive(alice, "abc");
  VisitAlive(alice, "de");
  (void)Take(12);
  EXPECT_EQ(CachedOf(alice, "abc"), 2U);
  EXPECT_EQ(CachedOf(alice, "de"), 2U);
}

TEST_F(CacheRetentionTest, APromptThatIsLongerThanTheShareKeepsItsFront) {
  const TenantId alice = Tenant("alice");
  VisitAlive(alice, "xy");
  VisitAlive(alice, "abcdef");
  (void)Take(12);
  EXPECT_EQ(CachedOf(alice, "abcdef"), 4U) << "it does not take the room of its own front";
  EXPECT_EQ(CachedOf(alice, "xy"), 0U);
}

TEST_F(CacheRetentionTest, ATenantsFloodOfLifetimesTakesNoOtherTenantsWhileThatFitsInTheirHalf) {
  const TenantId bob = Tenant("bob");
  VisitAlive(bob, "ABCD");
  const TenantId alice = Tenant("alice");
  for (const std::string_view letters : {"ab", "cd", "ef", "gh", "ij", "kl", "mn"}) VisitAlive(alice, letters);
  (void)Take(8);
  EXPECT_EQ(CachedOf(bob, "ABCD"), 4U);
  EXPECT_EQ(CachedOf(alice, "mn"), 2U);
}

TEST_F(CacheRetentionTest, WhereAllTenantsShareIsFullTheLongestUnusedOfAnyGivesWay) {
  const TenantId alice = Tenant("alice");
  const TenantId bob = Tenant("bob");
  const TenantId carol = Tenant("carol");
  VisitAlive(alice, "abcd");
  VisitAlive(bob, "efgh");
  VisitAlive(alice, "ab");
  VisitAlive(carol, "ijk");
  EXPECT_EQ(cache().claims().retained_count(), 8U);
  EXPECT_EQ(cache().claims().retained_count(alice), 2U);
  EXPECT_EQ(cache().claims().retained_count(bob), 3U);
  EXPECT_EQ(cache().claims().retained_count(carol), 3U);
}

// Hints have ends and priorities of their own.
TEST_F(CacheRetentionTest, ALifetimeTakesNoRoomOfAHint) {
  const TenantId alice = Tenant("alice");
  VisitFor(alice, "abcd", All(hours(2)));
  VisitAlive(alice, "ef");
  EXPECT_EQ(cache().counters().refused_retentions, 2U);
  (void)Take(12);
  EXPECT_EQ(CachedOf(alice, "abcd"), 4U);
}

TEST_F(CacheRetentionTest, WithoutAShareNothingIsRetained) {
  Make(8, {.retained_share_limit = 0});
  VisitRetained("ab", 100, hours(1));
  EXPECT_EQ(cache().claims().retained_count(), 0U);
  EXPECT_EQ(cache().counters().refused_retentions, 2U);
}

}  // namespace
}  // namespace roost::worker

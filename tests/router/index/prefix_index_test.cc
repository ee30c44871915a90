#include "router/index/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>

#include "router/index/holder_set.h"

namespace roost::router {
namespace {

constexpr WorkerSlot kFirst(0);
constexpr WorkerSlot kSecond(1);
constexpr WorkerSlot kHigh(700);  // past the inline word of a holder set

std::vector<BlockHash> Chain(TokenId seed, std::size_t length) {
  std::vector<TokenId> tokens(length * 4);
  std::iota(tokens.begin(), tokens.end(), seed);
  return HashBlocks(RootHash({}), tokens, 4);
}

std::vector<BlockHash> Front(const std::vector<BlockHash>& chain, std::size_t count) {
  return {chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(count)};
}

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // slot, blocks

Pairs MatchOf(const PrefixIndex& index, const std::vector<BlockHash>& chain) {
  Pairs pairs;
  for (const WorkerMatch& match : index.Match(chain)) pairs.emplace_back(match.worker.value(), match.block_count);
  return pairs;
}

TEST(HolderSetTest, InsertsErasesAndVisitsInOrderAcrossWords) {
  HolderSet set;
  EXPECT_TRUE(set.empty());
  for (const std::uint32_t slot : {64U, 3U, 1023U, 63U}) EXPECT_TRUE(set.Insert(WorkerSlot(slot)));
  EXPECT_FALSE(set.Insert(WorkerSlot(64)));
  EXPECT_TRUE(set.Erase(WorkerSlot(63)));
  EXPECT_FALSE(set.Erase(WorkerSlot(63)));
  EXPECT_FALSE(set.Contains(WorkerSlot(5000)));
  std::vector<std::uint32_t> seen;
  set.ForEach([&](WorkerSlot slot) { seen.push_back(slot.value()); });
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{3, 64, 1023}));
}

TEST(HolderSetTest, CombinesSetsOfDifferentWidth) {
  HolderSet narrow;
  narrow.Insert(WorkerSlot(1));
  narrow.Insert(WorkerSlot(2));
  HolderSet wide;
  wide.Insert(WorkerSlot(2));
  wide.Insert(WorkerSlot(200));

  HolderSet both = wide;
  both.IntersectWith(narrow);
  EXPECT_TRUE(both.Contains(WorkerSlot(2)));
  EXPECT_FALSE(both.Contains(WorkerSlot(200)));
  HolderSet either = narrow;
  either.UniteWith(wide);
  EXPECT_TRUE(either.Contains(WorkerSlot(1)) && either.Contains(WorkerSlot(200)));
  EXPECT_FALSE(wide.Minus(narrow).Contains(WorkerSlot(2)));
  EXPECT_TRUE(narrow.Minus(narrow).empty());
}

TEST(PrefixIndexTest, MatchesLeadingBlocksDeepestFirst) {
  PrefixIndex index;
  const auto chain = Chain(1, 10);
  index.Store(kFirst, Front(chain, 4));
  index.Store(kSecond, chain);
  index.Store(kHigh, Front(chain, 1));
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 10}, {0, 4}, {700, 1}}));
  EXPECT_EQ(MatchOf(index, Front(chain, 3)), (Pairs{{0, 3}, {1, 3}, {700, 1}}));
}

TEST(PrefixIndexTest, UnknownAndEmptyQueriesMatchNobody) {
  PrefixIndex index;
  EXPECT_TRUE(index.Match({}).empty());
  index.Store(kFirst, Chain(1, 4));
  EXPECT_TRUE(index.Match(Chain(2, 4)).empty());
  EXPECT_TRUE(index.Match({}).empty());
}

TEST(PrefixIndexTest, StoreAndRemoveAreIdempotent) {
  PrefixIndex index;
  const auto chain = Chain(1, 3);
  index.Store(kFirst, chain);
  index.Store(kFirst, chain);
  EXPECT_EQ(index.View(kFirst).block_count, 3U);
  EXPECT_EQ(index.View(kFirst).digest, chain[0] ^ chain[1] ^ chain[2]);
  index.Remove(kFirst, std::vector{chain[2]});
  index.Remove(kFirst, std::vector{chain[2]});
  index.Remove(kSecond, chain);
  EXPECT_EQ(index.View(kFirst).block_count, 2U);
  EXPECT_EQ(index.View(kFirst).digest, chain[0] ^ chain[1]);
  EXPECT_EQ(index.View(kSecond).block_count, 0U);
}

TEST(PrefixIndexTest, ClearForgetsOneWorkerAlone) {
  PrefixIndex index;
  const auto chain = Chain(1, 6);
  index.Store(kFirst, chain);
  index.Store(kSecond, Front(chain, 2));
  EXPECT_EQ(index.block_count(), 6U);
  index.Clear(kFirst);
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 2}}));
  EXPECT_EQ(index.block_count(), 2U);
  EXPECT_EQ(index.View(kFirst).block_count, 0U);
  EXPECT_EQ(index.View(kFirst).digest, BlockHash{});
}

TEST(PrefixIndexTest, HashesThatAgreeInTheirLowHalfStayApart) {
  PrefixIndex index;
  const BlockHash one{.high = 1, .low = 42};
  const BlockHash other{.high = 2, .low = 42};
  index.Store(kFirst, std::vector{one, other});
  EXPECT_EQ(index.View(kFirst).block_count, 2U);
  index.Remove(kFirst, std::vector{one});
  EXPECT_EQ(index.View(kFirst).digest, other);
  EXPECT_TRUE(index.Match(std::vector{one}).empty());
}

TEST(PrefixIndexTest, ViewWithHolesStillNamesEachWorkerAtMostOnce) {
  PrefixIndex index;
  const auto chain = Chain(1, 9);
  index.Store(kFirst, std::vector{chain[0], chain[4], chain[8]});
  index.Store(kSecond, std::vector{chain[3]});
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{0, 9}}));
}

}  // namespace
}  // namespace roost::router

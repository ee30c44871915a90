#include "router/index/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace roost::router {
namespace {

constexpr WorkerSlot kFirst(0);
constexpr WorkerSlot kSecond(1);
constexpr WorkerSlot kHigh(1023);
constexpr std::size_t kWholeTable = std::size_t{1} << 20U;

std::vector<BlockHash> Chain(TokenId seed, std::size_t length) {
  std::vector<TokenId> tokens(length * 4);
  std::iota(tokens.begin(), tokens.end(), seed);
  return HashBlocks(RootHash({}), tokens, 4);
}

std::vector<BlockHash> Front(const std::vector<BlockHash>& chain, std::size_t count) {
  return {chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(count)};
}
std::vector<BlockHash> Back(const std::vector<BlockHash>& chain, std::size_t count) {
  return {chain.rbegin(), chain.rbegin() + static_cast<std::ptrdiff_t>(count)};
}

using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // slot, blocks

Pairs MatchOf(const PrefixIndex& index, const std::vector<BlockHash>& chain) {
  Pairs pairs;
  for (const WorkerMatch& match : index.Match(chain)) pairs.emplace_back(match.worker.value(), match.block_count);
  return pairs;
}

TEST(PrefixIndexTest, MatchesLeadingBlocksDeepestFirst) {
  PrefixIndex index;
  const auto chain = Chain(1, 10);
  index.Store(kFirst, 0, Front(chain, 4));
  index.Store(kSecond, 0, chain);
  index.Store(kHigh, 0, Front(chain, 1));
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 10}, {0, 4}, {1023, 1}}));
  EXPECT_EQ(MatchOf(index, Front(chain, 3)), (Pairs{{0, 3}, {1, 3}, {1023, 1}}));
}

TEST(PrefixIndexTest, UnknownAndEmptyQueriesMatchNobody) {
  PrefixIndex index;
  EXPECT_TRUE(index.Match({}).empty());
  index.Store(kFirst, 0, Chain(1, 4));
  EXPECT_TRUE(index.Match(Chain(2, 4)).empty());
  EXPECT_TRUE(index.Match({}).empty());
}

TEST(PrefixIndexTest, BufferIsUsedAgainWithoutTraceOfTheLastAnswer) {
  PrefixIndex index;
  MatchBuffer buffer;
  index.Store(kFirst, 0, Chain(1, 4));
  index.Match(Chain(1, 4), buffer);
  EXPECT_EQ(buffer.matches().size(), 1U);
  index.Match(Chain(2, 4), buffer);
  EXPECT_TRUE(buffer.matches().empty());
  index.Match({}, buffer);
  EXPECT_TRUE(buffer.matches().empty());
}

TEST(PrefixIndexTest, ViewSumsUpWhatWasReported) {
  PrefixIndex index;
  const auto chain = Chain(1, 3);
  index.Store(kFirst, 0, chain);
  EXPECT_EQ(index.View(kFirst).block_count, 3U);
  EXPECT_EQ(index.View(kFirst).indexed_block_count, 3U);
  EXPECT_EQ(index.View(kFirst).digest, chain[0] ^ chain[1] ^ chain[2]);
  index.Remove(kFirst, Back(chain, 1));
  EXPECT_EQ(index.View(kFirst).block_count, 2U);
  EXPECT_EQ(index.View(kFirst).digest, chain[0] ^ chain[1]);
  EXPECT_EQ(index.View(kSecond).block_count, 0U);
}

TEST(PrefixIndexTest, ContradictingEventsShowInTheViewAndHurtNobodyElse) {
  PrefixIndex index;
  const auto chain = Chain(1, 3);
  index.Store(kSecond, 0, chain);
  index.Store(kFirst, 0, chain);
  index.Store(kFirst, 0, chain);
  EXPECT_EQ(index.View(kFirst).block_count, 6U);
  EXPECT_EQ(index.View(kFirst).indexed_block_count, 3U);
  index.Clear(kFirst);
  index.Remove(kFirst, Back(chain, 2));
  EXPECT_EQ(index.View(kFirst).digest, chain[1] ^ chain[2]);
  EXPECT_EQ(index.View(kFirst).block_count, ~std::uint64_t{1});
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 3}}));
  index.Clear(kFirst);
  EXPECT_EQ(index.View(kFirst).block_count, 0U);
}

TEST(PrefixIndexTest, ClearForgetsOneWorkerAloneAndAtOnce) {
  PrefixIndex index;
  const auto chain = Chain(1, 6);
  index.Store(kFirst, 0, chain);
  index.Store(kSecond, 0, Front(chain, 2));
  index.Clear(kFirst);
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 2}}));
  EXPECT_EQ(index.View(kFirst).block_count, 0U);
  EXPECT_EQ(index.View(kFirst).digest, BlockHash{});
  EXPECT_EQ(index.block_count(), 6U);
  index.Sweep(kWholeTable);
  EXPECT_EQ(index.block_count(), 2U);
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{1, 2}}));
}

TEST(PrefixIndexTest, WorkerDoesNotInheritWhatItsSlotHadBefore) {
  PrefixIndex index;
  const auto old_chain = Chain(1, 6);
  const auto new_chain = Chain(100, 6);
  for (int life = 0; life < 100; ++life) {
    index.Store(kFirst, 0, old_chain);
    index.Clear(kFirst);
    index.Store(kFirst, 0, new_chain);
    ASSERT_EQ(MatchOf(index, old_chain), Pairs{});
    ASSERT_EQ(MatchOf(index, new_chain), (Pairs{{0, 6}}));
    index.Clear(kFirst);
    if (life % 8 == 0) index.Sweep(16);
  }
}

TEST(PrefixIndexTest, WritesSweepWhatClearedWorkersLeft) {
  PrefixIndex index;
  index.Store(kFirst, 0, Chain(1, 200));
  index.Clear(kFirst);
  const auto chain = Chain(1000, 8);
  for (int i = 0; i < 100; ++i) {
    index.Store(kSecond, 0, chain);
    index.Remove(kSecond, Back(chain, 8));
  }
  EXPECT_EQ(index.block_count(), 0U);
}

TEST(PrefixIndexTest, ViewWithHolesStillNamesEachWorkerAtMostOnce) {
  PrefixIndex index;
  const auto chain = Chain(1, 9);
  index.Store(kFirst, 0, std::vector{chain[0], chain[4], chain[8]});
  index.Store(kSecond, 3, std::vector{chain[3]});
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{0, 9}}));
}

// All workers and their disks; one slot more than there are lanes gets none.
TEST(PrefixIndexTest, TwoThousandHoldersOfOnePrefix) {
  PrefixIndex index;
  const auto chain = Chain(1, 4096);
  for (std::uint32_t slot = 0; slot < PrefixIndex::kMaxSlots; ++slot) {
    index.Store(WorkerSlot(slot), 0, Front(chain, 2 * slot + 1));
  }
  EXPECT_EQ(index.View(WorkerSlot(PrefixIndex::kMaxSlots - 1)).indexed_block_count, 0U);
  const Pairs pairs = MatchOf(index, chain);
  ASSERT_EQ(pairs.size(), kMaxLanes);
  for (std::uint32_t i = 0; i < pairs.size(); ++i) {
    const std::uint32_t slot = kMaxLanes - 1 - i;
    ASSERT_EQ(pairs[i], std::pair(slot, 2 * slot + 1));
  }
}

TEST(PrefixIndexTest, DiskIsOneMoreHolderBesideItsWorker) {
  PrefixIndex index;
  const auto chain = Chain(1, 9);
  index.Store(kFirst, 0, Front(chain, 3));
  index.Store(DiskOf(kFirst), 0, Front(chain, 7));
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{DiskOf(kFirst).value(), 7}, {kFirst.value(), 3}}));
  index.Clear(kFirst);
  EXPECT_EQ(MatchOf(index, chain), (Pairs{{DiskOf(kFirst).value(), 7}}));
  EXPECT_EQ(WorkerOfDisk(DiskOf(kFirst)), kFirst);
}

// ---- at the memory limit ----

struct BoundedIndexTest : ::testing::Test {
  // Memory for the first table only.
  std::shared_ptr<IndexBudget> budget = std::make_shared<IndexBudget>(1);
  PrefixIndex index{budget};

  std::uint32_t DepthOf(WorkerSlot worker, const std::vector<BlockHash>& chain) {
    for (const WorkerMatch& match : index.Match(chain)) {
      if (match.worker == worker) return match.block_count;
    }
    return 0;
  }
};

TEST_F(BoundedIndexTest, DeepestBlocksGoFirst) {
  const std::uint64_t bytes = index.memory_bytes();
  std::vector<std::vector<BlockHash>> chains;
  for (TokenId i = 0; i < 8; ++i) {
    chains.push_back(Chain(10'000 * i, 100));
    index.Store(kFirst, 0, chains.back());
  }
  EXPECT_EQ(index.memory_bytes(), bytes);
  EXPECT_GT(index.shed_block_total(), 0U);
  std::uint32_t kept = 0;
  std::uint32_t least = 100;
  std::uint32_t most = 0;
  for (const auto& chain : chains) {
    const std::uint32_t depth = DepthOf(kFirst, chain);
    kept += depth;
    least = std::min(least, depth);
    most = std::max(most, depth);
  }
  EXPECT_GT(kept, 100U);
  EXPECT_GT(least, 10U);
  EXPECT_LE(most, 2 * least);
  EXPECT_EQ(index.View(kFirst).block_count, 800U);
}

TEST_F(BoundedIndexTest, ViewStaysExactAndTellsThatItIsNotComplete) {
  const auto chain = Chain(1, 1000);
  index.Store(kFirst, 0, chain);
  PrefixIndex::WorkerView view = index.View(kFirst);
  EXPECT_EQ(view.block_count, 1000U);
  EXPECT_LT(view.indexed_block_count, 300U);
  EXPECT_EQ(view.digest, std::accumulate(chain.begin(), chain.end(), BlockHash{},
                                         [](BlockHash sum, BlockHash hash) { return sum ^ hash; }));
  // Most of these had been shed.
  index.Remove(kFirst, Back(chain, 950));
  view = index.View(kFirst);
  EXPECT_EQ(view.block_count, 50U);
  EXPECT_EQ(view.indexed_block_count, 50U);
  // Nothing is missing any more, so it may grow again.
  index.Sweep(kWholeTable);
  const std::vector<BlockHash> next(chain.begin() + 50, chain.begin() + 120);
  index.Store(kFirst, 50, next);
  EXPECT_EQ(DepthOf(kFirst, chain), 120U);
}

TEST_F(BoundedIndexTest, WorkerThatMissesBlocksTakesUpNoneBehindThem) {
  const auto chain = Chain(1, 1000);
  index.Store(kFirst, 0, Front(chain, 500));
  const std::uint32_t depth = DepthOf(kFirst, chain);
  ASSERT_LT(depth, 500U);
  // Another worker leaves, so that there would be space.
  index.Store(kFirst, 500, std::vector(chain.begin() + 500, chain.end()));
  EXPECT_EQ(DepthOf(kFirst, chain), depth);
  index.Clear(kFirst);
  index.Sweep(kWholeTable);
  index.Store(kFirst, 0, Front(chain, 150));
  EXPECT_EQ(DepthOf(kFirst, chain), 150U);
}

TEST_F(BoundedIndexTest, FirstBlocksAloneAreNotShedButRefused) {
  for (TokenId i = 0; i < 5000; ++i) index.Store(kFirst, 0, Chain(10 * i, 1));
  EXPECT_GT(index.block_count(), 150U);
  EXPECT_EQ(index.View(kFirst).block_count, 5000U);
  EXPECT_EQ(index.View(kFirst).indexed_block_count + index.shed_block_total(), 5000U);
}

TEST(IndexBudgetTest, IndexesShareItAndGiveItBack) {
  const auto budget = std::make_shared<IndexBudget>(1'000'000);
  {
    PrefixIndex one(budget);
    PrefixIndex other(budget);
    for (TokenId i = 0; i < 300; ++i) {
      one.Store(kFirst, 0, Chain(10'000 * i, 100));
      other.Store(kFirst, 0, Chain(10'000 * i, 100));
      ASSERT_LE(one.memory_bytes() + other.memory_bytes(), budget->limit_bytes());
      ASSERT_EQ(one.memory_bytes() + other.memory_bytes(), budget->used_bytes());
    }
    EXPECT_GT(one.shed_block_total() + other.shed_block_total(), 0U);
    EXPECT_FALSE(one.Match(Chain(0, 100)).empty());
    EXPECT_FALSE(other.Match(Chain(0, 100)).empty());
  }
  EXPECT_EQ(budget->used_bytes(), 0U);
}

}  // namespace
}  // namespace roost::router

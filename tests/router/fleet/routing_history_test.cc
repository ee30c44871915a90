// The history of a worker that does not report what it holds, against a list that is scanned.
#include "router/fleet/workers/routing_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Chain = std::vector<BlockHash>;

constexpr WorkerSlot kSlot(2);
constexpr Instant kStart{10s};

Chain ChainOf(std::initializer_list<std::uint64_t> names) {
  Chain chain;
  std::uint64_t state = 7;
  for (const std::uint64_t name : names) {
    state = Mix64(state + name);
    chain.push_back({.high = state, .low = Mix64(state)});
  }
  return chain;
}

struct RoutingHistoryTest : ::testing::Test {
  PrefixIndex index;
  RoutingHistory history{index, kSlot};

  std::uint32_t Held(const Chain& chain) {
    const std::vector<WorkerMatch> matches = index.Match(chain);
    return matches.empty() ? 0 : matches.front().block_count;
  }
};

TEST_F(RoutingHistoryTest, WhatWasComputedIsMatched) {
  history.Use(ChainOf({1, 2, 3}), kStart);
  EXPECT_EQ(Held(ChainOf({1, 2, 4})), 2U);
  EXPECT_EQ(history.block_count(), 3U);
}

TEST_F(RoutingHistoryTest, LeastRecentlyUsedTailsGoFirst) {
  history.Use(ChainOf({1, 2, 3}), kStart);
  history.Use(ChainOf({1, 5}), kStart + 1s);
  history.Trim(3, kStart + 1s);
  EXPECT_EQ(Held(ChainOf({1, 2, 3})), 2U);
  EXPECT_EQ(Held(ChainOf({1, 5})), 2U);
  history.Trim(2, kStart + 1s);
  EXPECT_EQ(Held(ChainOf({1, 2, 3})), 1U);
  EXPECT_EQ(Held(ChainOf({1, 5})), 2U);
  history.Trim(0, kStart + 1s);
  EXPECT_EQ(index.block_count(), 0U);
}

TEST_F(RoutingHistoryTest, WhatWasNotUsedSinceAMissIsForgotten) {
  history.Use(ChainOf({1, 2, 3}), kStart);
  history.Use(ChainOf({4, 5}), kStart + 1s);
  history.Use(ChainOf({1, 6}), kStart + 2s);
  EXPECT_EQ(history.UsedAt(ChainOf({1, 2, 3})[2]), kStart);
  EXPECT_EQ(history.UsedAt(ChainOf({1})[0]), kStart + 2s);
  EXPECT_EQ(history.UsedAt(ChainOf({9})[0]), std::nullopt);
  history.ForgetUnusedSince(kStart + 1s);
  EXPECT_EQ(Held(ChainOf({1, 2, 3})), 1U);
  EXPECT_EQ(Held(ChainOf({4, 5})), 0U);
  EXPECT_EQ(Held(ChainOf({1, 6})), 2U);
}

TEST_F(RoutingHistoryTest, WhatIsNotUsedForItsLifeGoes) {
  history.Use(ChainOf({1, 2}), kStart);
  history.Use(ChainOf({1}), kStart + 1s);
  history.Trim(100, kStart + RoutingHistory::kLife);
  EXPECT_EQ(Held(ChainOf({1, 2})), 2U);
  history.Trim(100, kStart + RoutingHistory::kLife + 1ms);
  EXPECT_EQ(Held(ChainOf({1, 2})), 1U);
}

TEST_F(RoutingHistoryTest, ItsEndForgetsItsBlocksAndNoOthers) {
  index.Store(WorkerSlot(1), 0, ChainOf({1}));
  {
    PrefixIndex& shared = index;
    RoutingHistory other(shared, WorkerSlot(3));
    other.Use(ChainOf({1, 2}), kStart);
    EXPECT_EQ(index.block_count(), 2U);
  }
  index.Sweep(1'000'000);
  EXPECT_EQ(index.block_count(), 1U);
}

TEST(RoutingHistoryModelTest, KeepsWhatAListThatIsScannedKeeps) {
  struct Entry {
    BlockHash hash;
    std::size_t depth;
    Instant used_at;
  };
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    PrefixIndex index;
    RoutingHistory history(index, kSlot);
    std::vector<Entry> model;
    Instant now = kStart;
    for (int i = 0; i < 100; ++i) {
      now += std::chrono::seconds(1 + rng.Below(120));
      Chain chain;
      std::uint64_t state = 1;
      for (std::uint64_t left = 1 + rng.Below(12); left > 0; --left) {
        state = Mix64(state + rng.Below(2));
        chain.push_back({.high = state, .low = Mix64(state)});
      }
      history.Use(chain, now);
      for (std::size_t depth = 0; depth < chain.size(); ++depth) {
        std::erase_if(model, [&](const Entry& entry) { return entry.hash == chain[depth]; });
        model.push_back({chain[depth], depth, now});
      }
      const std::size_t bound = rng.Below(40);
      history.Trim(bound, now);
      std::erase_if(model, [&](const Entry& entry) { return now - entry.used_at > RoutingHistory::kLife; });
      // Oldest first; among blocks of one use, the deepest first.
      std::sort(model.begin(), model.end(), [](const Entry& a, const Entry& b) {
        return a.used_at != b.used_at ? a.used_at < b.used_at : a.depth > b.depth;
      });
      if (model.size() > bound) model.erase(model.begin(), model.end() - static_cast<std::ptrdiff_t>(bound));

      BlockHash digest;
      for (const Entry& entry : model) digest = digest ^ entry.hash;
      ASSERT_EQ(history.block_count(), model.size());
      ASSERT_EQ(index.View(kSlot).block_count, model.size());
      ASSERT_EQ(index.View(kSlot).digest, digest);
    }
  }
}

}  // namespace
}  // namespace roost::router

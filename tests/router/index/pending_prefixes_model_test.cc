// Pending prefixes against a list that is scanned from end to end, block by block.
#include "router/index/pending_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using namespace std::chrono_literals;
using Chain = std::vector<BlockHash>;
using Depths = std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>;  // slot → blocks, pending ones

constexpr Instant kNow{10s};
constexpr WorkerSlot kA(0);
constexpr WorkerSlot kB(1);

// A chain in which each block's hash follows from those before it, as with real blocks.
Chain ChainOf(std::initializer_list<std::uint64_t> names) {
  Chain chain;
  std::uint64_t state = 1;
  for (const std::uint64_t name : names) {
    state = Mix64(state + name);
    chain.push_back({.high = Mix64(state), .low = state});
  }
  return chain;
}

Depths DepthsOf(const std::vector<WorkerMatch>& matches) {
  Depths depths;
  for (const WorkerMatch& match : matches) {
    depths[match.worker.value()] = {match.block_count, match.pending_block_count};
  }
  EXPECT_EQ(depths.size(), matches.size()) << "a worker comes twice";
  return depths;
}

Depths Deepened(const PendingPrefixes& pending, const Chain& query, std::vector<WorkerMatch> matches = {},
                Instant now = kNow) {
  pending.Deepen(query, now, matches);
  EXPECT_TRUE(std::is_sorted(matches.begin(), matches.end(),
                             [](const auto& a, const auto& b) { return a.block_count > b.block_count; }));
  return DepthsOf(matches);
}

TEST(PendingPrefixesTest, SiblingFollowsAPrefixThatIsBeingComputedUntilItsGuardGoes) {
  PendingPrefixes pending;
  const Chain first = ChainOf({1, 2, 3});
  auto guard = pending.Add(kA, first, kNow + 1s);
  EXPECT_EQ(Deepened(pending, ChainOf({1, 2, 4, 5})), (Depths{{0, {2, 2}}}));
  EXPECT_TRUE(Deepened(pending, ChainOf({9, 2, 3})).empty());
  guard = {};
  EXPECT_TRUE(Deepened(pending, ChainOf({1, 2, 4, 5})).empty());
  EXPECT_EQ(pending.size(), 0U);
}

TEST(PendingPrefixesTest, DepthIsTheLargerOfHeldAndPending) {
  PendingPrefixes pending;
  const Chain chain = ChainOf({1, 2, 3, 4});
  const auto guard = pending.Add(kA, chain, kNow + 1s);
  EXPECT_EQ(Deepened(pending, chain, {{.worker = kB, .block_count = 3}, {.worker = kA, .block_count = 1}}),
            (Depths{{0, {4, 3}}, {1, {3, 0}}}));
  EXPECT_EQ(Deepened(pending, chain, {{.worker = kA, .block_count = 4}}), (Depths{{0, {4, 0}}}));
}

TEST(PendingPrefixesTest, NobodyFollowsAComputationPastItsDeadline) {
  PendingPrefixes pending;
  const Chain chain = ChainOf({1});
  const auto guard = pending.Add(kA, chain, kNow + 1s);
  EXPECT_EQ(Deepened(pending, chain, {}, kNow + 1s).size(), 1U);
  EXPECT_TRUE(Deepened(pending, chain, {}, kNow + 1001ms).empty());
}

TEST(PendingPrefixesTest, ReadsABoundedNumberOfEntriesDeepestFirst) {
  PendingPrefixes pending;
  const Chain shallow = ChainOf({1});
  const Chain deep = ChainOf({1, 2, 3});
  std::deque<PendingPrefixes::Guard> guards;
  for (std::size_t i = 0; i < 10 * PendingPrefixes::kMaxRead; ++i) guards.push_back(pending.Add(kB, shallow, kNow));
  guards.push_back(pending.Add(kA, deep, kNow));
  EXPECT_EQ(Deepened(pending, deep), (Depths{{0, {3, 3}}, {1, {1, 1}}}));
}

TEST(PendingPrefixesTest, ChainsWithoutBlocksAreNoTrouble) {
  PendingPrefixes pending;
  const auto guard = pending.Add(kA, {}, kNow);
  EXPECT_TRUE(Deepened(pending, {}).empty());
  EXPECT_TRUE(Deepened(pending, ChainOf({1})).empty());
}

class PendingFuzz {
 public:
  explicit PendingFuzz(std::uint64_t seed) : rng_(seed) {}

  // Fewer entries at a time than a lookup reads, so every answer must be complete.
  void Run(int operation_count) {
    for (int i = 0; i < operation_count; ++i) {
      switch (rng_.Below(4)) {
        case 0:
        case 1:
          if (live_.size() < PendingPrefixes::kMaxRead) Add();
          break;
        case 2: Release(); break;
        default: Compare(); break;
      }
      ASSERT_EQ(pending_.size(), live_.size());
    }
    live_.clear();
    ASSERT_EQ(pending_.size(), 0U);
  }

 private:
  struct Live {
    Chain chain;
    WorkerSlot worker;
    Instant deadline;
    PendingPrefixes::Guard guard;
  };

  // Some chains are long and part late; there are few names, so that many blocks are shared.
  Chain RandomChain() {
    Chain chain = rng_.Below(2) == 0 || live_.empty() ? Chain() : live_[rng_.Below(live_.size())].chain;
    chain.resize(rng_.Below(chain.size() + 1));
    const std::size_t length = chain.size() + rng_.Below(rng_.Below(4) == 0 ? 200 : 5);
    while (chain.size() < length) {
      const std::uint64_t low = Mix64((chain.empty() ? 1 : chain.back().low) + rng_.Below(2));
      chain.push_back({.high = Mix64(low), .low = low});
    }
    return chain;
  }
  void Add() {
    // A deque does not move its elements, and a moved vector keeps its storage.
    live_.push_back({RandomChain(),
                     WorkerSlot(static_cast<std::uint32_t>(rng_.Below(5))),
                     kNow + std::chrono::milliseconds(rng_.Below(10)),
                     {}});
    live_.back().guard = pending_.Add(live_.back().worker, live_.back().chain, live_.back().deadline);
  }
  void Release() {
    if (live_.empty()) return;
    Live& live = live_[rng_.Below(live_.size())];
    std::swap(live, live_.back());
    live_.pop_back();
  }
  void Compare() {
    const Chain query = RandomChain();
    const Instant now = kNow + std::chrono::milliseconds(rng_.Below(12));
    std::vector<WorkerMatch> matches;
    for (std::uint32_t slot = 0; slot < 5; ++slot) {
      const auto depth = static_cast<std::uint32_t>(rng_.Below(query.size() + 1));
      if (depth > 0 && rng_.Below(2) == 0) matches.push_back({.worker = WorkerSlot(slot), .block_count = depth});
    }
    std::sort(matches.begin(), matches.end(), [](auto& a, auto& b) { return a.block_count > b.block_count; });

    Depths expected = DepthsOf(matches);
    for (const Live& live : live_) {
      std::uint32_t depth = 0;
      while (depth < std::min(query.size(), live.chain.size()) && query[depth] == live.chain[depth]) ++depth;
      if (depth == 0 || live.deadline < now) continue;
      auto& [block_count, pending_count] = expected[live.worker.value()];
      if (depth <= block_count) continue;
      pending_count += depth - block_count;
      block_count = depth;
    }
    ASSERT_EQ(Deepened(pending_, query, matches, now), expected);
  }

  Rng rng_;
  PendingPrefixes pending_;
  std::deque<Live> live_;
};

TEST(PendingPrefixesModelTest, EveryAnswerIsThatOfTheWalkedList) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PendingFuzz(seed).Run(400);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace roost::router

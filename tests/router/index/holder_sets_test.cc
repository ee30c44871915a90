#include "router/index/holder_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/rng.h"

namespace roost::router {
namespace {

using Members = std::set<std::uint32_t>;

struct HolderSetsTest : ::testing::Test {
  EpochGate gate;
  IndexBudget budget;
  HolderSets sets{gate, budget};

  Holders Of(const Members& lanes) {
    Holders holders;
    for (const std::uint32_t lane : lanes) holders = sets.With(holders, Lane(lane)).value();
    return holders;
  }
  Holders Without(Holders holders, std::uint32_t lane) { return sets.Without(holders, Lane(lane)).value(); }
  Members MembersOf(Holders holders) {
    Members members;
    sets.ForEachLane(holders, [&](Lane lane) { members.insert(lane.value()); });
    return members;
  }
  void Reclaim() {
    gate.TryAdvance();
    gate.TryAdvance();
    sets.Reclaim();
  }
};

TEST_F(HolderSetsTest, EqualSetsHaveOneNameHoweverTheyCameAbout) {
  const Holders up = Of({1, 2, 3, 4, 5, 600});
  Holders down = Of({1, 2, 3, 4, 5, 6, 7, 600});
  EXPECT_TRUE(up.is_set());
  EXPECT_NE(up, down);
  down = Without(Without(down, 6), 7);
  EXPECT_EQ(up, down);
  EXPECT_EQ(MembersOf(up), (Members{1, 2, 3, 4, 5, 600}));
}

TEST_F(HolderSetsTest, TwoAreInlineAgain) {
  const Holders two = Without(Without(Of({9, 8, 7, 6}), 7), 8);
  EXPECT_FALSE(two.is_set());
  EXPECT_EQ(two, Of({6, 9}));
}

// Many values that share sets, compared with sets of numbers.
TEST_F(HolderSetsTest, AgreesWithSetsUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::uint64_t lanes = seed % 2 == 0 ? 12 : kMaxLanes;
    std::vector<Holders> values(40);
    std::vector<Members> truth(values.size());
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t which = rng.Below(values.size());
      const auto lane = static_cast<std::uint32_t>(rng.Below(lanes));
      const bool in = truth[which].contains(lane);
      ASSERT_EQ(sets.Contains(values[which], Lane(lane)), in);
      if (in || truth[which].size() > 30) {
        const std::uint32_t gone = in ? lane : *truth[which].begin();
        values[which] = Without(values[which], gone);
        truth[which].erase(gone);
      } else {
        values[which] = sets.With(values[which], Lane(lane)).value();
        truth[which].insert(lane);
      }
      ASSERT_EQ(MembersOf(values[which]), truth[which]);
      const std::size_t other = rng.Below(values.size());
      ASSERT_EQ(values[which] == values[other], truth[which] == truth[other]);
      if (rng.Below(50) == 0) Reclaim();
    }
    Reclaim();
    std::set<Members> distinct;
    for (const Members& members : truth) {
      if (members.size() > Holders::kMaxInline) distinct.insert(members);
    }
    EXPECT_EQ(sets.set_count(), distinct.size());
    for (const Holders holders : values) sets.Release(holders);
    Reclaim();
    EXPECT_EQ(sets.set_count(), 0U);
  }
}

TEST_F(HolderSetsTest, SetOutlivesItsLastReferenceAsLongAsSomebodyReads) {
  const Holders holders = Of({1, 2, 3, 4, 5});
  const std::span<const std::uint64_t> words = sets.Words(holders.set());
  {
    const EpochGate::Pin pin(gate);
    sets.Release(holders);
    for (std::uint32_t i = 0; i < 100; ++i) {
      sets.Release(Of({10, 20, 30, 40, 50 + i}));
      Reclaim();
    }
    EXPECT_EQ(words[0], 0b111110U);
  }
  Reclaim();
  EXPECT_EQ(sets.set_count(), 0U);
}

TEST_F(HolderSetsTest, SetThatComesBackWhileItWaitsStays) {
  const Holders holders = Of({1, 2, 3, 4, 5});
  sets.Release(holders);
  EXPECT_EQ(Of({1, 2, 3, 4, 5}), holders);
  Reclaim();
  EXPECT_EQ(MembersOf(holders), (Members{1, 2, 3, 4, 5}));
  sets.Release(holders);
  Reclaim();
  EXPECT_EQ(sets.set_count(), 0U);
}

TEST(HolderSetsBudgetTest, JoiningIsRefusedAndLeavingIsNot) {
  const EpochGate gate;
  IndexBudget budget(700'000);
  HolderSets sets(gate, budget);
  // Four lanes above `first`. All sets stay, because no epoch ends.
  const auto make = [&](std::uint32_t first) {
    std::optional<Holders> holders = Holders();
    for (std::uint32_t lane = first; holders && lane < first + 4; ++lane) holders = sets.With(*holders, Lane(lane));
    return holders;
  };
  std::vector<Holders> made;
  std::optional<Holders> next = make(0);
  for (; next && made.size() + 4 < kMaxLanes; next = make(static_cast<std::uint32_t>(made.size())))
    made.push_back(*next);
  ASSERT_FALSE(next.has_value());
  ASSERT_GT(made.size(), 100U);
  EXPECT_LE(budget.used_bytes(), budget.limit_bytes());
  for (std::uint32_t first = 0; first < made.size(); ++first) {
    const std::optional<Holders> rest = sets.Without(made[first], Lane(first));
    ASSERT_TRUE(rest.has_value());
    EXPECT_FALSE(sets.Contains(*rest, Lane(first)));
    EXPECT_TRUE(sets.Contains(*rest, Lane(first + 3)));
  }
}

}  // namespace
}  // namespace roost::router

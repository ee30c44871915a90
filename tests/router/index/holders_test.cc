#include "router/index/holders.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "common/base/rng.h"

namespace roost::router {
namespace {

Holders Of(const std::set<std::uint32_t>& lanes) {
  Holders holders;
  for (const std::uint32_t lane : lanes) holders = holders.WithInline(Lane(lane));
  return holders;
}

TEST(HoldersTest, AgreesWithASetUpToTwo) {
  Rng rng(1);
  std::set<std::uint32_t> truth;
  Holders holders;
  for (int i = 0; i < 20'000; ++i) {
    const auto lane = static_cast<std::uint32_t>(rng.Below(2) == 0 ? rng.Below(8) : rng.Below(kMaxLanes));
    ASSERT_EQ(holders.ContainsInline(Lane(lane)), truth.contains(lane));
    if (truth.contains(lane)) {
      holders = holders.WithoutInline(Lane(lane));
      truth.erase(lane);
    } else if (truth.size() < Holders::kMaxInline) {
      holders = holders.WithInline(Lane(lane));
      truth.insert(lane);
    } else {
      // Makes space for the next one.
      holders = holders.WithoutInline(Lane(*truth.begin()));
      truth.erase(truth.begin());
    }
    ASSERT_FALSE(holders.is_set());
    ASSERT_EQ(holders.inline_count(), truth.size());
    ASSERT_EQ(holders, Of(truth));
    std::size_t index = 0;
    for (const std::uint32_t expected : truth) ASSERT_EQ(holders.lane(index++).value(), expected);
  }
}

TEST(HoldersTest, SetsAreNamedApartFromLanes) {
  for (const std::uint32_t number : {0U, 1U, (1U << kSetIdBits) - 1}) {
    const Holders set{SetId(number)};
    EXPECT_TRUE(set.is_set());
    EXPECT_EQ(set.set().value(), number);
    EXPECT_EQ(Holders::FromBits(set.bits()), set);
    EXPECT_LT(set.bits(), 1U << Holders::kBits);
  }
  EXPECT_FALSE(Holders().is_set());
  EXPECT_TRUE(Holders().empty());
}

TEST(HoldersTest, LanesOfAWordAreVisitedInOrder) {
  std::vector<std::uint32_t> lanes;
  ForEachLaneOfWord(2, 0x8000000000000005ULL, [&](Lane lane) { lanes.push_back(lane.value()); });
  EXPECT_EQ(lanes, (std::vector<std::uint32_t>{128, 130, 191}));
}

}  // namespace
}  // namespace roost::router

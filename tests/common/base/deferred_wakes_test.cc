#include "common/base/deferred_wakes.h"

#include <gtest/gtest.h>

#include <memory>

namespace roost {
namespace {

struct CountedSleeper final : Sleeper {
  void Wake() override { ++wakes; }
  int wakes = 0;
};

TEST(DeferredWakesTest, WakesEachSleeperOnceAtTheEnd) {
  const auto one = std::make_shared<CountedSleeper>();
  const auto other = std::make_shared<CountedSleeper>();
  {
    const DeferredWakes wakes;
    EXPECT_TRUE(DeferredWakes::Add(one));
    EXPECT_TRUE(DeferredWakes::Add(other));
    EXPECT_TRUE(DeferredWakes::Add(one));
    EXPECT_EQ(one->wakes + other->wakes, 0);
  }
  EXPECT_EQ(one->wakes, 1);
  EXPECT_EQ(other->wakes, 1);
}

TEST(DeferredWakesTest, RefusesWithoutAScope) {
  const auto sleeper = std::make_shared<CountedSleeper>();
  EXPECT_FALSE(DeferredWakes::Add(sleeper));
  { const DeferredWakes wakes; }
  EXPECT_FALSE(DeferredWakes::Add(sleeper));
  EXPECT_EQ(sleeper->wakes, 0);
}

TEST(DeferredWakesTest, TheOutermostScopeCounts) {
  const auto sleeper = std::make_shared<CountedSleeper>();
  {
    const DeferredWakes outer;
    {
      const DeferredWakes inner;
      EXPECT_TRUE(DeferredWakes::Add(sleeper));
    }
    EXPECT_EQ(sleeper->wakes, 0);
    EXPECT_TRUE(DeferredWakes::Add(sleeper));
  }
  EXPECT_EQ(sleeper->wakes, 1);
}

}  // namespace
}  // namespace roost

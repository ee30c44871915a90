#include "worker/cache/observe/ghost_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

TEST(GhostListTest, ForgetsTheOldestFirst) {
  GhostList ghosts(2);
  ghosts.Remember(1);
  ghosts.Remember(2);
  ghosts.Remember(3);
  EXPECT_FALSE(ghosts.Contains(1));
  EXPECT_TRUE(ghosts.Contains(2));
  EXPECT_TRUE(ghosts.Contains(3));
  EXPECT_EQ(ghosts.size(), 2U);
}

TEST(GhostListTest, ForgetsWhatWasStoredAgain) {
  GhostList ghosts(2);
  ghosts.Remember(1);
  ghosts.Forget(1);
  ghosts.Forget(1);
  EXPECT_FALSE(ghosts.Contains(1));
  EXPECT_EQ(ghosts.size(), 0U);
}

TEST(GhostListTest, AKeyRememberedAgainIsAmongTheNewest) {
  GhostList ghosts(2);
  ghosts.Remember(1);
  ghosts.Remember(2);
  ghosts.Remember(1);
  EXPECT_TRUE(ghosts.Contains(2));
  ghosts.Remember(3);
  EXPECT_TRUE(ghosts.Contains(1));
  EXPECT_FALSE(ghosts.Contains(2));
}

TEST(GhostListTest, KnowsTheZeroKeyLikeAnyOther) {
  GhostList ghosts(1);
  EXPECT_FALSE(ghosts.Contains(0));
  ghosts.Remember(0);
  EXPECT_TRUE(ghosts.Contains(0));
}

TEST(GhostListTest, AgreesWithAListUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::size_t capacity = 1 + rng.Below(40);
    GhostList ghosts(static_cast<std::uint32_t>(capacity));
    std::deque<std::optional<std::uint64_t>> last_evictions;  // oldest first; nothing if the key was stored again
    const auto forget = [&](std::uint64_t key) {
      std::replace(last_evictions.begin(), last_evictions.end(), std::optional(key), std::optional<std::uint64_t>());
    };
    for (int operation = 0; operation < 5000; ++operation) {
      const std::uint64_t key = rng.Below(80);
      if (rng.Below(3) == 0) {
        ghosts.Forget(key);
        forget(key);
      } else {
        ghosts.Remember(key);
        forget(key);
        last_evictions.emplace_back(key);
        if (last_evictions.size() > capacity) last_evictions.pop_front();
      }
      const std::uint64_t asked = rng.Below(80);
      ASSERT_EQ(ghosts.Contains(asked), std::count(last_evictions.begin(), last_evictions.end(), asked) == 1);
      ASSERT_EQ(ghosts.size(),
                last_evictions.size() -
                    static_cast<std::size_t>(std::count(last_evictions.begin(), last_evictions.end(), std::nullopt)));
    }
  }
}

}  // namespace
}  // namespace roost::worker

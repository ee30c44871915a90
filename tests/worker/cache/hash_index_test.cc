#include "worker/cache/hash_index.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

TEST(HashIndexTest, FindsWhatWasInsertedAndNothingElse) {
  HashIndex index(4);
  index.Insert({1, 2}, BlockId(3));
  EXPECT_EQ(index.Find({1, 2}), BlockId(3));
  EXPECT_FALSE(index.Find({2, 2}).has_value());  // the same low half
  index.Erase({1, 2});
  EXPECT_FALSE(index.Find({1, 2}).has_value());
  EXPECT_EQ(index.size(), 0U);
}

// Small key and table sizes make long probe runs and wrap-around; a std::map says what is right.
TEST(HashIndexTest, AgreesWithAMapUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto capacity = static_cast<std::uint32_t>(1 + rng.Below(40));
    HashIndex index(capacity);
    std::map<BlockHash, BlockId> truth;
    for (int operation = 0; operation < 5000; ++operation) {
      const BlockHash hash{rng.Below(2), rng.Below(40)};
      const auto found = truth.find(hash);
      if (found != truth.end()) {
        ASSERT_EQ(index.Find(hash), found->second);
        if (rng.Below(2) == 0) {
          index.Erase(hash);
          truth.erase(found);
        }
      } else {
        ASSERT_FALSE(index.Find(hash).has_value());
        if (truth.size() < capacity) {
          const BlockId block(static_cast<std::uint32_t>(rng.Below(1000)));
          index.Insert(hash, block);
          truth.emplace(hash, block);
        }
      }
      ASSERT_EQ(index.size(), truth.size());
    }
    for (const auto& [hash, block] : truth) ASSERT_EQ(index.Find(hash), block);
  }
}

TEST(HashIndexDeathTest, StopsAtMisuse) {
  HashIndex index(1);
  EXPECT_DEATH(index.Erase({1, 1}), "is not there");
  index.Insert({1, 1}, BlockId(0));
  EXPECT_DEATH(index.Insert({2, 2}, BlockId(0)), "1 entries");
}

}  // namespace
}  // namespace roost::worker

#include "worker/cache/structures/hash_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

// An index of blocks with their hashes kept outside of it, as in the cache.
class Blocks {
 public:
  explicit Blocks(std::uint32_t capacity) : index_(capacity), hashes_(1000) {}

  void Insert(BlockHash hash, BlockId block) {
    hashes_[block.value()] = hash;
    index_.Insert(hash, block);
  }
  void Erase(BlockHash hash) { index_.Erase(hash, Find(hash).value()); }
  [[nodiscard]] std::optional<BlockId> Find(BlockHash hash) const {
    return index_.Find(hash, [&](BlockId block) { return hashes_[block.value()] == hash; });
  }
  [[nodiscard]] std::uint32_t size() const { return index_.size(); }

 private:
  HashIndex index_;
  std::vector<BlockHash> hashes_;
};

TEST(HashIndexTest, FindsWhatWasInsertedAndNothingElse) {
  Blocks index(4);
  index.Insert({1, 2}, BlockId(3));
  EXPECT_EQ(index.Find({1, 2}), BlockId(3));
  EXPECT_FALSE(index.Find({2, 2}).has_value());  // the same low half
  index.Insert({2, 2}, BlockId(4));
  EXPECT_EQ(index.Find({2, 2}), BlockId(4));
  index.Erase({1, 2});
  EXPECT_FALSE(index.Find({1, 2}).has_value());
  EXPECT_EQ(index.Find({2, 2}), BlockId(4));
  EXPECT_EQ(index.size(), 1U);
}

// Small keys and tables make long probe runs and wrap-around; a std::map gives the right answers.
TEST(HashIndexTest, AgreesWithAMapUnderChurn) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto capacity = static_cast<std::uint32_t>(1 + rng.Below(40));
    Blocks index(capacity);
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
          BlockId block(static_cast<std::uint32_t>(rng.Below(1000)));
          const auto is_used = [&truth](BlockId id) {
            return std::any_of(truth.begin(), truth.end(), [id](const auto& entry) { return entry.second == id; });
          };
          while (is_used(block)) block = BlockId(static_cast<std::uint32_t>(rng.Below(1000)));
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
  EXPECT_DEATH(index.Erase({1, 1}, BlockId(0)), "is not there");
  index.Insert({1, 1}, BlockId(0));
  EXPECT_DEATH(index.Insert({2, 2}, BlockId(0)), "1 entries");
}

}  // namespace
}  // namespace roost::worker

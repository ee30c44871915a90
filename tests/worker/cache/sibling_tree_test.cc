#include "worker/cache/structures/sibling_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Blocks are ordered by key, then by number.
class KeyOrder final : public SiblingTree::Order {
 public:
  // The place before all blocks with this key; with `block`, the place of that block.
  KeyOrder(const std::vector<std::uint32_t>& keys, std::uint32_t key, std::uint32_t block = 0)
      : keys_(keys), place_(key, block) {}

  [[nodiscard]] bool IsBefore(std::uint32_t other) const override {
    ++comparison_count;
    return place_ <= std::pair(keys_[other], other);
  }

  mutable std::uint32_t comparison_count = 0;

 private:
  const std::vector<std::uint32_t>& keys_;
  std::pair<std::uint32_t, std::uint32_t> place_;
};

class SiblingTreeTest : public testing::Test {
 protected:
  explicit SiblingTreeTest(std::uint32_t block_count = 64) : tree_(block_count), keys_(block_count) {}

  // The place of a block is right after those that precede it in the order.
  class PlaceOf final : public SiblingTree::Order {
   public:
    PlaceOf(const std::vector<std::uint32_t>& keys, std::uint32_t block) : keys_(keys), block_(block) {}
    [[nodiscard]] bool IsBefore(std::uint32_t other) const override {
      return std::pair(keys_[block_], block_) < std::pair(keys_[other], other);
    }

   private:
    const std::vector<std::uint32_t>& keys_;
    std::uint32_t block_;
  };

  void Insert(std::uint32_t block, std::uint32_t key) {
    keys_[block] = key;
    tree_.Insert(root_, block, PlaceOf(keys_, block));
  }
  void Erase(std::uint32_t block) { tree_.Erase(root_, block, PlaceOf(keys_, block)); }
  [[nodiscard]] std::vector<std::uint32_t> All() const {
    std::vector<std::uint32_t> blocks;
    tree_.Append(root_, blocks);
    return blocks;
  }

  SiblingTree tree_;
  std::vector<std::uint32_t> keys_;  // by block
  std::uint32_t root_ = SiblingTree::kNone;
};

TEST_F(SiblingTreeTest, AnEmptyTreeHasNoNeighbours) {
  const SiblingTree::Pair pair = tree_.Neighbours(root_, KeyOrder(keys_, 5));
  EXPECT_EQ(pair.before, SiblingTree::kNone);
  EXPECT_EQ(pair.after, SiblingTree::kNone);
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(SiblingTreeTest, KeepsBlocksInOrder) {
  Insert(1, 30);
  Insert(2, 10);
  Insert(3, 20);
  EXPECT_THAT(All(), ElementsAre(2, 3, 1));
  Erase(3);
  EXPECT_THAT(All(), ElementsAre(2, 1));
}

TEST_F(SiblingTreeTest, NeighboursAreRightBeforeAndAfterAPlace) {
  Insert(1, 30);
  Insert(2, 10);
  Insert(3, 20);
  const SiblingTree::Pair between = tree_.Neighbours(root_, KeyOrder(keys_, 15));
  EXPECT_EQ(between.before, 2U);
  EXPECT_EQ(between.after, 3U);
  const SiblingTree::Pair at = tree_.Neighbours(root_, KeyOrder(keys_, 20));
  EXPECT_EQ(at.before, 2U);
  EXPECT_EQ(at.after, 3U);
  EXPECT_EQ(tree_.Neighbours(root_, KeyOrder(keys_, 0)).before, SiblingTree::kNone);
  EXPECT_EQ(tree_.Neighbours(root_, KeyOrder(keys_, 40)).after, SiblingTree::kNone);
}

TEST_F(SiblingTreeTest, TreesOverTheSameBlocksAreApart) {
  Insert(1, 10);
  std::uint32_t other = SiblingTree::kNone;
  keys_[2] = 10;
  tree_.Insert(other, 2, PlaceOf(keys_, 2));
  EXPECT_THAT(All(), ElementsAre(1));
  Erase(1);
  EXPECT_EQ(root_, SiblingTree::kNone);
  EXPECT_EQ(other, 2U);
}

TEST_F(SiblingTreeTest, AgreesWithASortedVector) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sorted;  // (key, block)
    root_ = SiblingTree::kNone;
    for (int operation = 0; operation < 2000; ++operation) {
      const auto block = static_cast<std::uint32_t>(rng.Below(keys_.size()));
      const auto found =
          std::find_if(sorted.begin(), sorted.end(), [block](const auto& entry) { return entry.second == block; });
      if (found == sorted.end()) {
        Insert(block, static_cast<std::uint32_t>(rng.Below(20)));  // many equal keys
        const std::pair entry(keys_[block], block);
        sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), entry), entry);
      } else {
        Erase(block);
        sorted.erase(found);
      }
      std::vector<std::uint32_t> blocks(sorted.size());
      std::transform(sorted.begin(), sorted.end(), blocks.begin(), [](const auto& entry) { return entry.second; });
      ASSERT_EQ(All(), blocks);
      const auto key = static_cast<std::uint32_t>(rng.Below(22));
      const SiblingTree::Pair pair = tree_.Neighbours(root_, KeyOrder(keys_, key));
      const auto after = std::lower_bound(sorted.begin(), sorted.end(), std::pair(key, 0U));
      ASSERT_EQ(pair.after, after == sorted.end() ? SiblingTree::kNone : after->second);
      ASSERT_EQ(pair.before, after == sorted.begin() ? SiblingTree::kNone : std::prev(after)->second);
    }
  }
}

class LargeSiblingTreeTest : public SiblingTreeTest {
 protected:
  LargeSiblingTreeTest() : SiblingTreeTest(100'000) {}
};

// Blocks that arrive in order are the worst case of an unbalanced tree. 2 ln(100,000) is 23 comparisons on average.
TEST_F(LargeSiblingTreeTest, FindsAPlaceAmongManyWithFewComparisons) {
  for (std::uint32_t block = 0; block < keys_.size(); ++block) Insert(block, block);
  for (std::uint32_t key = 0; key < keys_.size(); key += 1009) {
    const KeyOrder order(keys_, key);
    EXPECT_EQ(tree_.Neighbours(root_, order).after, key);
    EXPECT_LT(order.comparison_count, 120U);
  }
}

using SiblingTreeDeathTest = SiblingTreeTest;

TEST_F(SiblingTreeDeathTest, StopsOnABlockThatIsNotThere) {
  Insert(1, 10);
  EXPECT_DEATH(Erase(2), "block 2 is not among its siblings");
}

}  // namespace
}  // namespace roost::worker

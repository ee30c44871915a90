#include "worker/cache/leaf_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/base/rng.h"

namespace roost::worker {
namespace {

constexpr auto kLeaf = TreePlace::kLeaf;
constexpr auto kInner = TreePlace::kInner;

TEST(LeafListsTest, HandsOutLeavesInTheOrderOfThePushes) {
  LeafLists lists(3, 1);
  lists.PushBack(0, BlockId(1), kLeaf);
  lists.PushBack(0, BlockId(2), kLeaf);
  lists.PushBack(0, BlockId(0), kLeaf);
  for (const std::uint32_t block : {1U, 2U, 0U}) {
    ASSERT_EQ(lists.FrontLeaf(0), BlockId(block));
    lists.Erase(BlockId(block));
  }
  EXPECT_EQ(lists.FrontLeaf(0), std::nullopt);
}

TEST(LeafListsTest, ListsAreApart) {
  LeafLists lists(2, 2);
  lists.PushBack(1, BlockId(0), kLeaf);
  EXPECT_EQ(lists.FrontLeaf(0), std::nullopt);
  EXPECT_EQ(lists.FrontLeaf(1), BlockId(0));
  EXPECT_EQ(lists.ListOf(BlockId(0)), 1U);
  EXPECT_TRUE(lists.Contains(BlockId(0)));
  EXPECT_FALSE(lists.Contains(BlockId(1)));
}

TEST(LeafListsTest, AnInnerBlockIsPassedOverUntilItBecomesALeaf) {
  LeafLists lists(3, 1);
  lists.PushBack(0, BlockId(0), kInner);
  lists.PushBack(0, BlockId(1), kLeaf);
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(1));
  lists.BecomeLeaf(BlockId(0));
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(0));
}

TEST(LeafListsTest, AnInnerBlockThatWasNeverInTheWayKeepsItsPlace) {
  LeafLists lists(2, 1);
  lists.PushBack(0, BlockId(0), kLeaf);
  lists.PushBack(0, BlockId(1), kInner);
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(0));
  lists.BecomeLeaf(BlockId(1));
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(0));
}

TEST(LeafListsTest, BlocksThatWereSetAsideComeBackInTheOrderOfTheirPushes) {
  LeafLists lists(4, 1);
  for (std::uint32_t block = 0; block < 3; ++block) lists.PushBack(0, BlockId(block), kInner);
  lists.PushBack(0, BlockId(3), kLeaf);
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(3));
  lists.BecomeLeaf(BlockId(1));
  lists.BecomeLeaf(BlockId(2));
  lists.BecomeLeaf(BlockId(0));
  for (std::uint32_t block = 0; block < 4; ++block) {
    ASSERT_EQ(lists.FrontLeaf(0), BlockId(block));
    lists.Erase(BlockId(block));
  }
}

TEST(LeafListsTest, BlocksThatWereSetAsideCanBeErased) {
  LeafLists lists(3, 1);
  for (std::uint32_t block = 0; block < 3; ++block) lists.PushBack(0, BlockId(block), kInner);
  EXPECT_EQ(lists.FrontLeaf(0), std::nullopt);
  lists.BecomeLeaf(BlockId(0));
  lists.BecomeLeaf(BlockId(1));
  for (std::uint32_t block = 0; block < 3; ++block) {
    lists.Erase(BlockId(block));
    EXPECT_FALSE(lists.Contains(BlockId(block)));
  }
  EXPECT_EQ(lists.FrontLeaf(0), std::nullopt);
  lists.PushBack(0, BlockId(1), kLeaf);
  EXPECT_EQ(lists.FrontLeaf(0), BlockId(1));
}

// What LeafLists must do: one list of everything, searched from end to end.
class NaiveLists {
 public:
  struct Entry {
    std::uint32_t list;
    std::uint32_t block;
    TreePlace place;
  };

  [[nodiscard]] std::optional<BlockId> FrontLeaf(std::uint32_t list) const {
    for (const Entry& entry : entries) {
      if (entry.list == list && entry.place == kLeaf) return BlockId(entry.block);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Entry>::iterator Find(std::uint32_t block) {
    return std::find_if(entries.begin(), entries.end(), [block](const Entry& entry) { return entry.block == block; });
  }

  std::vector<Entry> entries;
};

TEST(LeafListsTest, AgreesWithANaiveListOnRandomOperations) {
  constexpr std::uint32_t kBlocks = 20;
  constexpr std::uint32_t kLists = 3;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    LeafLists lists(kBlocks, kLists);
    NaiveLists naive;
    for (int operation = 0; operation < 2000; ++operation) {
      const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
      const auto found = naive.Find(block);
      ASSERT_EQ(lists.Contains(BlockId(block)), found != naive.entries.end());
      if (found == naive.entries.end()) {
        const NaiveLists::Entry entry{static_cast<std::uint32_t>(rng.Below(kLists)), block,
                                      rng.Below(3) == 0 ? kLeaf : kInner};
        lists.PushBack(entry.list, BlockId(block), entry.place);
        naive.entries.push_back(entry);
      } else if (found->place == kInner && rng.Below(3) > 0) {
        lists.BecomeLeaf(BlockId(block));
        found->place = kLeaf;
      } else {
        lists.Erase(BlockId(block));
        naive.entries.erase(found);
      }
      const auto list = static_cast<std::uint32_t>(rng.Below(kLists));
      ASSERT_EQ(lists.FrontLeaf(list), naive.FrontLeaf(list));
    }
  }
}

TEST(LeafListsDeathTest, StopsOnBlocksInTheWrongPlace) {
  LeafLists lists(2, 1);
  lists.PushBack(0, BlockId(0), kLeaf);
  EXPECT_DEATH(lists.PushBack(0, BlockId(0), kLeaf), "block 0 is in a list");
  EXPECT_DEATH(lists.BecomeLeaf(BlockId(0)), "block 0 is no inner block");
  EXPECT_DEATH(lists.Erase(BlockId(1)), "block 1 is in no list");
}

}  // namespace
}  // namespace roost::worker

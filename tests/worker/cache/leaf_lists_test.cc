#include "worker/cache/structures/leaf_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
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

// Against a sorted set: leaves and inner blocks come, become leaves and go at random.
TEST(LeafListsTest, InsertedLeavesGoByTheirNumbers) {
  constexpr std::uint32_t kBlocks = 64;
  Rng rng(5);
  LeafLists lists(kBlocks, 1);
  std::vector<std::uint64_t> numbers(kBlocks);
  std::vector<bool> present(kBlocks);
  std::set<std::pair<std::uint64_t, std::uint32_t>> leaves;
  std::uint64_t count = 0;
  std::uint32_t out_of_order = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto block = static_cast<std::uint32_t>(rng.Below(kBlocks));
    if (!present[block]) {
      if (numbers[block] == 0 || rng.Below(2) == 0) numbers[block] = ++count;  // else it comes back with its old number
      const TreePlace place = rng.Below(2) == 0 ? kLeaf : kInner;
      lists.Insert(0, BlockId(block), place, numbers[block]);
      if (place == kLeaf) leaves.emplace(numbers[block], block);
      out_of_order += place == kLeaf && *leaves.rbegin() != std::pair(numbers[block], block) ? 1 : 0;
    } else if (!leaves.contains({numbers[block], block}) && rng.Below(2) == 0) {
      lists.BecomeLeaf(BlockId(block));
      leaves.emplace(numbers[block], block);
      continue;
    } else {
      lists.Erase(BlockId(block));
      leaves.erase({numbers[block], block});
    }
    present[block] = !present[block];
    const std::optional<BlockId> front = lists.FrontLeaf(0);
    ASSERT_EQ(front.has_value(), !leaves.empty());
    ASSERT_TRUE(!front || front->value() == leaves.begin()->second) << "step " << step;
  }
  EXPECT_GT(out_of_order, 1000U);
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

// LeafLists by definition: one list of all blocks, searched from end to end.
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

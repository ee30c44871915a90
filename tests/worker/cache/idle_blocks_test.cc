#include "worker/cache/eviction/idle_blocks.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace roost::worker {
namespace {

constexpr auto kLeaf = TreePlace::kLeaf;
constexpr auto kInner = TreePlace::kInner;
constexpr auto kUnwanted = IdleBlocks::Reach::kUnwanted;
constexpr auto kWanted = IdleBlocks::Reach::kWanted;
constexpr auto kHeld = IdleBlocks::Reach::kHeld;

class IdleBlocksTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlocks = 10;
  static constexpr std::uint32_t kGroups = 2;

  void Insert(std::uint32_t block, std::uint32_t priority, TreePlace place = kLeaf, std::uint32_t group = 0) {
    idle_.Insert(BlockId(block), {.group = EvictionGroup(group), .request = {}}, place, priority);
  }
  // Evicts all blocks that may go, and returns their order.
  std::vector<std::uint32_t> Drain(IdleBlocks::Reach reach, std::uint32_t group = 0) {
    std::vector<std::uint32_t> gone;
    while (const std::optional<BlockId> block = idle_.Victim(EvictionGroup(group), reach)) {
      gone.push_back(block->value());
      idle_.Evict(*block);
    }
    return gone;
  }
  using Order = std::vector<std::uint32_t>;

  IdleBlocks idle_{kBlocks, kGroups, std::make_unique<LruEviction>(kBlocks, kGroups)};
};

TEST_F(IdleBlocksTest, ThereIsNoVictimAmongNone) {
  EXPECT_EQ(Drain(kUnwanted), Order{});
  EXPECT_EQ(Drain(kWanted), Order{});
}

TEST_F(IdleBlocksTest, LowPrioritiesThenTheDefaultThenHighOnes) {
  Insert(0, kMaxRetentionPriority);
  Insert(1, kDefaultRetentionPriority + 1);
  Insert(2, kDefaultRetentionPriority);
  Insert(3, kDefaultRetentionPriority - 1);
  Insert(4, 0);
  Insert(5, 64);
  Insert(6, 63);
  EXPECT_EQ(Drain(kUnwanted), (Order{4, 3, 2, 1, 6, 5, 0}));
}

TEST_F(IdleBlocksTest, OfOnePriorityTheOneIdleForLongest) {
  for (const std::uint32_t priority : {10U, kDefaultRetentionPriority, 90U}) {
    for (const std::uint32_t block : {2U, 0U, 1U}) Insert(block, priority);
    EXPECT_EQ(Drain(kUnwanted), (Order{2, 0, 1}));
  }
}

TEST_F(IdleBlocksTest, WantedBlocksAreNoVictimsOfThoseWhoAskForOthers) {
  idle_.InsertWanted(BlockId(0), EvictionGroup(0), kLeaf);
  Insert(1, kMaxRetentionPriority);
  EXPECT_EQ(Drain(kUnwanted), Order{1});
  EXPECT_EQ(Drain(kWanted), Order{0});
}

TEST_F(IdleBlocksTest, GroupsAreApart) {
  Insert(0, 10, kLeaf, 0);
  Insert(1, kDefaultRetentionPriority, kLeaf, 1);
  idle_.InsertWanted(BlockId(2), EvictionGroup(1), kLeaf);
  EXPECT_EQ(Drain(kUnwanted, 1), Order{1});
  EXPECT_EQ(Drain(kWanted, 0), Order{});
  EXPECT_EQ(Drain(kWanted, 1), Order{2});
  EXPECT_EQ(Drain(kUnwanted, 0), Order{0});
}

TEST_F(IdleBlocksTest, AnInnerBlockGoesOnceItIsALeaf) {
  for (const std::uint32_t priority : {10U, kDefaultRetentionPriority, 90U}) {
    Insert(0, priority, kInner);
    Insert(1, kMaxRetentionPriority);
    EXPECT_EQ(Drain(kUnwanted), Order{1});
    idle_.BecomeLeaf(BlockId(0));
    EXPECT_EQ(Drain(kUnwanted), Order{0});
  }
}

TEST_F(IdleBlocksTest, AWantedInnerBlockGoesOnceItIsALeaf) {
  idle_.InsertWanted(BlockId(0), EvictionGroup(0), kInner);
  EXPECT_EQ(Drain(kWanted), Order{});
  idle_.BecomeLeaf(BlockId(0));
  EXPECT_EQ(Drain(kUnwanted), Order{});
  EXPECT_EQ(Drain(kWanted), Order{0});
}

TEST_F(IdleBlocksTest, AnErasedBlockMayComeBackUnderAnotherPriority) {
  Insert(0, 90);
  Insert(1, kDefaultRetentionPriority);
  idle_.InsertWanted(BlockId(2), EvictionGroup(0), kLeaf);
  for (const std::uint32_t block : {0U, 1U, 2U}) idle_.Erase(BlockId(block));
  EXPECT_EQ(Drain(kUnwanted), Order{});
  EXPECT_EQ(Drain(kWanted), Order{});
  Insert(0, kDefaultRetentionPriority);
  Insert(1, 10);
  EXPECT_EQ(Drain(kUnwanted), (Order{1, 0}));
}

TEST_F(IdleBlocksTest, HeldBlocksGoApartTheOldestFirst) {
  idle_.InsertHeld(BlockId(0), EvictionGroup(0), kLeaf, 7);
  idle_.InsertHeld(BlockId(1), EvictionGroup(0), kLeaf, 3);
  idle_.InsertHeld(BlockId(2), EvictionGroup(0), kInner, 1);
  idle_.InsertHeld(BlockId(3), EvictionGroup(1), kLeaf, 2);
  idle_.InsertWanted(BlockId(4), EvictionGroup(0), kLeaf);
  Insert(5, kMaxRetentionPriority);
  EXPECT_EQ(Drain(kUnwanted), Order{5});
  EXPECT_EQ(Drain(kWanted), Order{4});
  EXPECT_EQ(Drain(kHeld), (Order{1, 0}));
  idle_.BecomeLeaf(BlockId(2));
  EXPECT_EQ(Drain(kHeld), Order{2});
  EXPECT_EQ(Drain(kHeld, 1), Order{3});
}

TEST_F(IdleBlocksTest, AListThatRanOutIsFoundAgain) {
  Insert(0, 90);
  EXPECT_EQ(Drain(kUnwanted), Order{0});
  Insert(1, 90);
  EXPECT_EQ(Drain(kUnwanted), Order{1});
}

using IdleBlocksDeathTest = IdleBlocksTest;

TEST_F(IdleBlocksDeathTest, StopsOnAPriorityThatThereIsNot) {
  EXPECT_DEATH(Insert(0, kMaxRetentionPriority + 1), "priority 101");
}

}  // namespace
}  // namespace roost::worker

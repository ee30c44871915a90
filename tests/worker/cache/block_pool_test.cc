#include "worker/cache/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace roost::worker {
namespace {

TEST(BlockPoolTest, HandsOutEachBlockOnceAndThenNone) {
  BlockPool pool(5);
  std::set<BlockId> blocks;
  for (int i = 0; i < 5; ++i) blocks.insert(pool.Allocate().value());
  EXPECT_EQ(blocks.size(), 5U);
  EXPECT_EQ(blocks.rbegin()->value(), 4U);
  EXPECT_FALSE(pool.Allocate().has_value());
}

TEST(BlockPoolTest, CountsBlocksByState) {
  BlockPool pool(3);
  const BlockId a = pool.Allocate().value();
  const BlockId b = pool.Allocate().value();
  EXPECT_EQ(pool.free_count(), 1U);
  EXPECT_EQ(pool.referenced_count(), 2U);
  EXPECT_EQ(pool.DropReference(a), 0U);
  EXPECT_EQ(pool.idle_count(), 1U);
  pool.AddReference(a);
  EXPECT_EQ(pool.idle_count(), 0U);
  EXPECT_EQ(pool.referenced_count(), 2U);
  EXPECT_EQ(pool.DropReference(b), 0U);
  pool.Free(b);
  EXPECT_EQ(pool.free_count(), 2U);
  EXPECT_TRUE(pool.IsFree(b));
}

TEST(BlockPoolTest, ABlockIsIdleOnlyAfterItsLastReference) {
  BlockPool pool(1);
  const BlockId block = pool.Allocate().value();
  pool.AddReference(block);
  EXPECT_EQ(pool.DropReference(block), 1U);
  EXPECT_EQ(pool.referenced_count(), 1U);
  EXPECT_EQ(pool.DropReference(block), 0U);
  EXPECT_EQ(pool.referenced_count(), 0U);
}

TEST(BlockPoolTest, FreeingABlockEndsItsGeneration) {
  BlockPool pool(1);
  const BlockId block = pool.Allocate().value();
  const BlockRef before = pool.RefTo(block);
  EXPECT_EQ(pool.DropReference(block), 0U);
  EXPECT_EQ(pool.RefTo(block).generation, before.generation);
  pool.Free(block);
  EXPECT_NE(pool.RefTo(pool.Allocate().value()).generation, before.generation);
}

TEST(BlockPoolDeathTest, StopsAtMisuse) {
  BlockPool pool(2);
  const BlockId block = pool.Allocate().value();
  EXPECT_DEATH(pool.Free(block), "has 1 references");
  EXPECT_DEATH(pool.AddReference(BlockId(1)), "is free");
  EXPECT_DEATH(pool.DropReference(BlockId(1)), "has no reference");
  EXPECT_DEATH((void)pool.references(BlockId(2)), "block 2 of 2");
}

}  // namespace
}  // namespace roost::worker

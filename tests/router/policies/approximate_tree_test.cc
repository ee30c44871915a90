#include "router/policies/approximate_tree.h"

#include <gtest/gtest.h>

#include "tests/router/route/fleets.h"

namespace roost::router {
namespace {

TEST(ApproximateTreeTest, FindsTheDeepestBlockAndWhoHadItLast) {
  ApproximateTree tree(100);
  const std::vector<BlockHash> chain = Chain(1, 10);
  EXPECT_FALSE(tree.Find(chain).has_value());
  tree.Add(Idle(3), chain);
  tree.Add(Idle(4), std::span(chain).first(6));
  EXPECT_EQ(tree.Find(chain)->slot.value(), 3U);
  EXPECT_EQ(tree.Find(chain)->block_count, 10U);
  EXPECT_EQ(tree.Find(std::span(chain).first(5))->slot.value(), 4U);
  tree.Add(Idle(3), std::span(chain).first(2));
  EXPECT_EQ(tree.Find(std::span(chain).first(2))->slot.value(), 3U);
}

TEST(ApproximateTreeTest, ForgetsEndsBeforeBeginningsAndOldBeforeNew) {
  ApproximateTree tree(8);
  const std::vector<BlockHash> old = Chain(1, 6);
  const std::vector<BlockHash> recent = Chain(2, 5);
  tree.Add(Idle(0), old);
  tree.Add(Idle(0), recent);
  EXPECT_EQ(tree.block_count(WorkerSlot(0)), 8U);
  EXPECT_EQ(tree.Find(recent)->block_count, 5U);
  EXPECT_EQ(tree.Find(old)->block_count, 3U);
  tree.Add(Idle(1), old);  // each worker has its own limit
  EXPECT_EQ(tree.block_count(WorkerSlot(0)), 8U);
  EXPECT_EQ(tree.Find(old)->block_count, 6U);
}

}  // namespace
}  // namespace roost::router

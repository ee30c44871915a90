#include "worker/cache/claim_level.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

class ClaimLevelTest : public testing::Test {
 protected:
  // Blocks 0 to 3 are one prefix; 0 has no parent.
  void Claim(std::uint32_t block, std::uint32_t owner) { level_.Claim(block, ParentOf(block), owner); }
  void Unclaim(std::uint32_t block) { level_.Unclaim(block, ParentOf(block)); }
  static std::uint32_t ParentOf(std::uint32_t block) { return block == 0 ? kNoBlock : block - 1; }

  ClaimLevel level_{4};
};

TEST_F(ClaimLevelTest, NothingIsClaimedAtFirst) {
  EXPECT_FALSE(level_.IsOwn(3));
  EXPECT_FALSE(level_.IsClaimed(3));
  EXPECT_FALSE(level_.IsNeedless(3));
  EXPECT_EQ(level_.claimed_children(3), 0U);
  EXPECT_EQ(level_.count(7), 0U);
  level_.ClearOwn(3);
  EXPECT_EQ(level_.own_count(), 0U);
}

TEST_F(ClaimLevelTest, ABlockIsNeedlessWithoutAClaimOfItsOwnAndWithoutAClaimedChild) {
  level_.SetOwn(2, 0);
  for (const std::uint32_t block : {2U, 1U, 0U}) Claim(block, 0);
  for (const std::uint32_t block : {2U, 1U, 0U}) EXPECT_FALSE(level_.IsNeedless(block));
  level_.ClearOwn(2);
  EXPECT_TRUE(level_.IsNeedless(2));
  EXPECT_FALSE(level_.IsNeedless(1));
  Unclaim(2);
  EXPECT_FALSE(level_.IsClaimed(2));
  EXPECT_TRUE(level_.IsNeedless(1));
}

TEST_F(ClaimLevelTest, ABlockCountsOnceWhileItIsOwnOrClaimed) {
  level_.SetOwn(1, 5);
  level_.SetOwn(1, 5);
  Claim(1, 5);
  EXPECT_EQ(level_.count(5), 1U);
  EXPECT_EQ(level_.own_count(), 1U);
  Unclaim(1);
  EXPECT_TRUE(level_.IsCounted(1));
  EXPECT_EQ(level_.count(5), 1U);
  EXPECT_EQ(level_.claimed_count(), 0U);
  level_.ClearOwn(1);
  EXPECT_FALSE(level_.IsCounted(1));
  EXPECT_EQ(level_.count(5), 0U);
}

TEST_F(ClaimLevelTest, ABlockCountsForTheOwnerOfItsFirstClaim) {
  Claim(0, 1);
  level_.SetOwn(0, 2);
  EXPECT_EQ(level_.owner(0), 1U);
  Unclaim(0);
  EXPECT_EQ(level_.count(1), 1U);
  EXPECT_EQ(level_.count(2), 0U);
  level_.ClearOwn(0);
  EXPECT_EQ(level_.count(1), 0U);
}

TEST_F(ClaimLevelTest, EachClaimedChildIsCounted) {
  level_.Claim(1, 0, 0);
  level_.Claim(2, 0, 0);
  EXPECT_EQ(level_.claimed_children(0), 2U);
  level_.Unclaim(1, 0);
  EXPECT_EQ(level_.claimed_children(0), 1U);
}

using ClaimLevelDeathTest = ClaimLevelTest;

TEST_F(ClaimLevelDeathTest, AClaimComesOnceAndGoesOnce) {
  Claim(0, 0);
  EXPECT_DEATH(Claim(0, 0), "claimed already");
  Unclaim(0);
  EXPECT_DEATH(Unclaim(0), "not claimed");
}

}  // namespace
}  // namespace roost::worker

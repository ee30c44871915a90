#include "router/fleet/requests/tenant_shares.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "common/base/clock.h"

namespace roost::router {
namespace {

class TenantSharesTest : public ::testing::Test {
 protected:
  // The number of requests, out of `count`, that go behind those of others.
  int Behind(const std::string& tenant, int count) {
    int behind = 0;
    for (int i = 0; i < count; ++i) behind += shares_.OnSent(tenant, clock_.Now()) ? 0 : 1;
    return behind;
  }
  void End(const std::string& tenant, int count) {
    for (int i = 0; i < count; ++i) shares_.OnEnded(tenant);
  }

  ManualClock clock_;
  TenantShares shares_;
};

TEST_F(TenantSharesTest, ASingleTenantIsNeverBeyondItsShare) { EXPECT_EQ(Behind("greedy", 1000), 0); }

TEST_F(TenantSharesTest, WhoHasMoreThanAnEqualPartGoesBehind) {
  Behind("greedy", 100);
  EXPECT_EQ(Behind("modest", 4), 0);
  EXPECT_EQ(Behind("greedy", 10), 10);
  EXPECT_EQ(Behind("modest", 46), 0);  // up to what the greedy one would have then
  End("greedy", 110);
  EXPECT_EQ(Behind("greedy", 10), 0);
}

TEST_F(TenantSharesTest, ATenantCountsForAMinuteAfterItsLastRequest) {
  Behind("modest", 1);
  End("modest", 1);
  EXPECT_EQ(Behind("greedy", 20), 16);
  End("greedy", 20);
  clock_.Advance(2 * TenantShares::kMemory);
  EXPECT_EQ(Behind("greedy", 20), 0);
}

TEST_F(TenantSharesTest, AFewRequestsAreNeverTooMany) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Behind("tenant " + std::to_string(i), 4), 0);
}

TEST_F(TenantSharesTest, WhoHasLessThanAnEqualPartHasSomeLeft) {
  EXPECT_FALSE(shares_.HasShareLeft("greedy"));  // a single tenant has all
  Behind("greedy", 100);
  EXPECT_FALSE(shares_.HasShareLeft("greedy"));
  EXPECT_TRUE(shares_.HasShareLeft("modest"));
  EXPECT_FALSE(shares_.HasShareLeft("greedy"));
  Behind("modest", 4);
  EXPECT_TRUE(shares_.HasShareLeft("modest"));
  EXPECT_FALSE(shares_.HasShareLeft("greedy"));
  Behind("modest", 96);
  EXPECT_FALSE(shares_.HasShareLeft("modest"));  // both have the same
}

}  // namespace
}  // namespace roost::router

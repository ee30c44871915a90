#include "worker/cache/tenant_blocks.h"

#include <gtest/gtest.h>

namespace roost::worker {
namespace {

TEST(TenantBlocksTest, ATenantIsANumberWhileItHasUsers) {
  TenantBlocks tenants(4);
  EXPECT_EQ(tenants.Join(""), TenantId(0));
  const TenantId a = tenants.Join("a");
  const TenantId b = tenants.Join("b");
  EXPECT_NE(a, b);
  EXPECT_NE(a, TenantId(0));
  EXPECT_EQ(tenants.Join("a"), a);
  EXPECT_EQ(tenants.size(), 2U);
  tenants.Leave(a);
  EXPECT_EQ(tenants.Find("a"), a);
  tenants.Leave(a);
  EXPECT_EQ(tenants.Find("a"), std::nullopt);
  EXPECT_EQ(tenants.Find(""), TenantId(0));
  EXPECT_EQ(tenants.Join("c"), a);  // numbers are given again, so the table does not grow
  EXPECT_EQ(tenants.size(), 2U);
}

TEST(TenantBlocksTest, TopsAreFoundByTenant) {
  TenantBlocks tenants(8);
  const TenantId a = tenants.Join("a");
  const TenantId b = tenants.Join("b");
  for (const std::uint32_t block : {1U, 3U, 5U}) tenants.AddTop(a, block);
  tenants.AddTop(b, 2);
  EXPECT_EQ(tenants.top_count(a), 3U);
  EXPECT_EQ(tenants.FirstTop(a), 5U);
  tenants.RemoveTop(a, 3);
  tenants.RemoveTop(a, 5);
  EXPECT_EQ(tenants.FirstTop(a), 1U);
  tenants.RemoveTop(a, 1);
  EXPECT_EQ(tenants.FirstTop(a), std::nullopt);
  EXPECT_EQ(tenants.FirstTop(b), 2U);
}

}  // namespace
}  // namespace roost::worker

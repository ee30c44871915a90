#include "deploy/roostctl/simulate/kept_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace roost::simulate {
namespace {

constexpr std::uint32_t kBlockTokens = 16;

// Requests with `count` blocks that no other request has.
class KeptCacheTest : public testing::Test {
 protected:
  std::vector<BlockId> Fill(std::uint32_t count) {
    std::vector<TokenId> tokens(std::size_t{count} * kBlockTokens);
    std::iota(tokens.begin(), tokens.end(), next_token_);
    next_token_ += static_cast<TokenId>(tokens.size());
    const std::vector<BlockHash> hashes = HashBlocks(kRoot, tokens, kBlockTokens);
    std::vector<BlockId> blocks;
    while (blocks.size() < count) blocks.push_back(kept_.cache().Allocate().value());
    for (std::uint32_t i = 0; i < count; ++i) {
      blocks[i] = kept_.cache().Commit({kRoot, hashes, tokens}, i, blocks).block;
    }
    kept_.Settle();
    return blocks;
  }

  void Release(const std::vector<BlockId>& blocks) {
    kept_.cache().ReleaseAll(blocks, {});
    kept_.Settle();
  }

  static constexpr BlockHash kRoot{1, 1};
  TokenId next_token_ = 0;
  KeptCache kept_{{.block_tokens = kBlockTokens,
                   .kept_tokens = 10 * kBlockTokens,
                   .reserve_tokens = 8 * kBlockTokens,
                   .eviction = "lru"}};
};

TEST_F(KeptCacheTest, AllIsFreeAtFirst) { EXPECT_EQ(kept_.cache().available_count(), 18U); }

TEST_F(KeptCacheTest, WhatRequestsHoldDoesNotCount) {
  Release(Fill(6));
  Release(Fill(4));
  EXPECT_EQ(kept_.cache().ready_count(), 10U);
  const std::vector<BlockId> held = Fill(8);
  EXPECT_EQ(kept_.cache().ready_count(), 18U);
  EXPECT_EQ(kept_.cache().available_count(), 10U);
  EXPECT_EQ(kept_.cache().counters().evicted_blocks, 0U);
  Release(held);
  EXPECT_EQ(kept_.cache().ready_count(), 10U);
  EXPECT_EQ(kept_.cache().available_count(), 18U);
  EXPECT_EQ(kept_.cache().counters().evicted_blocks, 8U);
}

TEST_F(KeptCacheTest, WhatIsHeldBeyondTheReserveIsTakenFromWhatIsKept) {
  Release(Fill(8));
  Release(Fill(2));
  const std::vector<BlockId> held = Fill(12);
  EXPECT_EQ(kept_.cache().available_count(), 6U);
  EXPECT_EQ(kept_.cache().counters().evicted_blocks, 4U);
  Release(held);
  EXPECT_EQ(kept_.cache().ready_count(), 10U);
}

}  // namespace
}  // namespace roost::simulate

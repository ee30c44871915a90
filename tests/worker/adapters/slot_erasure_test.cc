// The sequences that an order to evict names.
#include "worker/adapters/slots/slot_shelf.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters {
namespace {

const BlockHash kNamedRoot{1, 2};

std::vector<TokenId> SlotTokens(TokenId first, std::size_t count = 200) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = first * 1000 + static_cast<TokenId>(i);
  return tokens;
}

class SlotErasureTest : public ::testing::Test {
 protected:
  static std::vector<BlockHash> Hashes(const std::vector<TokenId>& tokens) {
    return HashBlocks(kNamedRoot, tokens, kGrainTokens);
  }
  static wire::Evict OfPrompt(std::vector<TokenId> tokens) {
    return {.what =
                wire::PromptToEvict{.root = kNamedRoot, .tokens = std::move(tokens), .block_hashes = {}, .own = {}}};
  }
  static bool Names(const SlotErasure& erasure, const std::vector<TokenId>& tokens, const std::string& tenant = "") {
    return erasure.Names(kNamedRoot, SlotTenant(tenant), Hashes(tokens));
  }
};

TEST_F(SlotErasureTest, APromptNamesWhatContinuesItAndItsFronts) {
  const SlotErasure erasure(OfPrompt(SlotTokens(1, 100)));
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 100)));
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 300)));
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 50)));
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 5))) << "there may be more than is known";
  EXPECT_FALSE(Names(erasure, SlotTokens(2, 100)));
  std::vector<TokenId> other = SlotTokens(1, 50);
  for (const TokenId token : SlotTokens(2, 50)) other.push_back(token);
  EXPECT_FALSE(Names(erasure, other)) << "its front is another's too";
  EXPECT_FALSE(erasure.Names(BlockHash{3, 4}, {}, {}));
  EXPECT_FALSE(erasure.Names(BlockHash(), {}, {})) << "an empty slot";
}

TEST_F(SlotErasureTest, APromptWithoutAFullBlockNamesAllInItsScope) {
  const SlotErasure erasure(OfPrompt(SlotTokens(1, 5)));
  EXPECT_TRUE(Names(erasure, SlotTokens(2, 100)));
  EXPECT_FALSE(erasure.Names(BlockHash{3, 4}, {}, Hashes(SlotTokens(1))));
}

TEST_F(SlotErasureTest, ATenantNamesWhatItsRequestsLeft) {
  const SlotErasure erasure({.what = wire::TenantToEvict{.tenant = "a"}});
  EXPECT_TRUE(Names(erasure, SlotTokens(1), "a"));
  EXPECT_FALSE(Names(erasure, SlotTokens(1), "b"));
  EXPECT_FALSE(Names(erasure, SlotTokens(1)));
}

TEST_F(SlotErasureTest, ABlockNamesWhatHasItAndTheFrontsThatAreKnown) {
  SlotErasure erasure({.what = wire::BlockToEvict{.hash = Hashes(SlotTokens(1, 64)).back()}});
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 100)));
  EXPECT_FALSE(Names(erasure, SlotTokens(1, 48)));
  erasure.Learn(Hashes(SlotTokens(2, 100)));
  EXPECT_FALSE(Names(erasure, SlotTokens(1, 48)));
  erasure.Learn(Hashes(SlotTokens(1, 100)));
  EXPECT_TRUE(Names(erasure, SlotTokens(1, 48)));
  EXPECT_FALSE(Names(erasure, SlotTokens(2, 48)));
  EXPECT_FALSE(erasure.Names(BlockHash(), {}, {})) << "an empty slot";
}

}  // namespace
}  // namespace roost::worker::adapters

#include "common/prefix/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace roost {
namespace {

PrefixScope Scope() {
  return {.fingerprint = "model-a", .adapter = "", .tenant = "", .salt = "", .block_tokens = 16, .kv_dtype = "bf16"};
}

std::vector<TokenId> Iota(std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0U);
  return tokens;
}

// The vectors were computed from the definition in block_hash.h with Python's hashlib; common/README.md prints them for
// implementations in other languages.
TEST(BlockHashTest, MatchesThePublishedVectors) {
  const BlockHash root = RootHash(Scope());
  EXPECT_EQ(root.ToHex(), "165209ba29b2b2e3ef91282a1b94da18");
  const auto hashes = HashBlocks(root, Iota(32), 16);
  ASSERT_EQ(hashes.size(), 2U);
  EXPECT_EQ(hashes[0].ToHex(), "67958381dd659144cb7c02322886cd10");
  EXPECT_EQ(hashes[1].ToHex(), "7d096cfea560ada3e1c74cc931bbc891");

  const BlockHash scoped = RootHash({.fingerprint = "model-a",
                                     .adapter = "lora",
                                     .tenant = "acme",
                                     .salt = "pepper",
                                     .block_tokens = 4,
                                     .kv_dtype = "f32"});
  EXPECT_EQ(scoped.ToHex(), "3e3c6c2d9aa16ea89d206f7409ee86dc");
  const std::vector<TokenId> tokens{0, 1, 0xFFFFFFFF, 7};
  EXPECT_EQ(ChainHash(scoped, tokens).ToHex(), "5710477bcdd8a35b6074ae5398e6dc31");
}

TEST(BlockHashTest, OnlyFullBlocksHaveAHash) {
  const BlockHash root = RootHash(Scope());
  EXPECT_TRUE(HashBlocks(root, Iota(15), 16).empty());
  EXPECT_EQ(HashBlocks(root, Iota(31), 16).size(), 1U);
  EXPECT_EQ(HashBlocks(root, Iota(32), 16).size(), 2U);
}

TEST(BlockHashTest, EqualBlocksAtOtherPositionsDiffer) {
  const std::vector<TokenId> tokens(64, 9);
  const auto hashes = HashBlocks(RootHash(Scope()), tokens, 16);
  EXPECT_EQ(std::set<BlockHash>(hashes.begin(), hashes.end()).size(), 4U);
}

TEST(BlockHashTest, EveryPartOfTheScopeSeparates) {
  std::set<BlockHash> roots{RootHash(Scope())};
  PrefixScope scope = Scope();
  scope.adapter = "x";
  roots.insert(RootHash(scope));
  scope = Scope();
  scope.tenant = "x";
  roots.insert(RootHash(scope));
  scope = Scope();
  scope.salt = "x";
  roots.insert(RootHash(scope));
  scope = Scope();
  scope.block_tokens = 32;
  roots.insert(RootHash(scope));
  scope = Scope();
  scope.kv_dtype = "f32";
  roots.insert(RootHash(scope));
  scope = Scope();
  scope.fingerprint = "model-";
  scope.adapter = "a";
  roots.insert(RootHash(scope));
  EXPECT_EQ(roots.size(), 7U);
}

TEST(BlockHashTest, BehindASharedFrontTheHashesAreTheScopesOwn) {
  const BlockHash shared{1, 2};
  const BlockHash tenant{3, 4};
  const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  const std::vector<BlockHash> whole = HashBlocks(shared, tokens, 4);
  const OwnScope own{2, OwnRoot(tenant, whole[1])};
  const std::vector<BlockHash> parted = HashBlocks(shared, own, tokens, 4);
  ASSERT_EQ(parted.size(), 3U);
  EXPECT_EQ(parted[0], whole[0]);
  EXPECT_EQ(parted[1], whole[1]);
  EXPECT_EQ(parted[2], ChainHash(own.root, std::span(tokens).subspan(8, 4)));
  EXPECT_NE(parted[2], whole[2]);
  EXPECT_NE(OwnRoot(tenant, whole[0]), own.root);
  EXPECT_NE(OwnRoot({3, 5}, whole[1]), own.root);
}

TEST(BlockHashTest, BlockTokensIsAPowerOfTwoWithinBounds) {
  for (const std::uint32_t good : {4U, 16U, 256U}) EXPECT_TRUE(IsValidBlockTokens(good));
  for (const std::uint32_t bad : {0U, 2U, 12U, 512U}) EXPECT_FALSE(IsValidBlockTokens(bad));
}

}  // namespace
}  // namespace roost

// Chains of blocks and their frames, for tests of blocks that travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "worker/transfer/frame.h"

namespace roost::worker {

inline constexpr FrameSizes kTestSizes{.block_tokens = 16, .data_bytes = 400};
inline constexpr BlockHash kTestRoot{11, 12};

// A prompt of whole blocks, its hashes, and bytes for each block that follow from its hash.
struct TestChain {
  std::vector<TokenId> tokens;
  FrameChain chain;

  explicit TestChain(std::uint32_t block_count, std::uint64_t seed = 1, std::optional<OwnScope> own = std::nullopt)
      : tokens(std::size_t{block_count} * kTestSizes.block_tokens) {
    Rng rng(seed);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng.Below(1000));
    chain = {.root = kTestRoot, .own = own, .parent = kTestRoot, .tenant = TenantHash("acme")};
    chain.hashes = HashBlocks(kTestRoot, own, tokens, kTestSizes.block_tokens);
  }

  [[nodiscard]] std::span<const TokenId> TokensAt(std::uint32_t index) const {
    return std::span(tokens).subspan(std::size_t{index} * kTestSizes.block_tokens, kTestSizes.block_tokens);
  }
  // As its source has it: blocks of a shared prefix have no tenant.
  [[nodiscard]] FrameBlock BlockAt(std::uint32_t index) const {
    const bool is_shared = chain.own && index < chain.own->first_block;
    return {.position = index,
            .hash = chain.hashes[index],
            .parent = chain.ParentAt(index),
            .root = chain.RootAt(index),
            .tenant = is_shared ? 0 : chain.tenant};
  }
  // The chain without its first blocks.
  [[nodiscard]] FrameChain From(std::uint32_t first) const {
    FrameChain rest = chain;
    rest.first_position = first;
    if (first > 0) rest.parent = chain.hashes[first - 1];
    rest.hashes.erase(rest.hashes.begin(), rest.hashes.begin() + first);
    return rest;
  }
};

inline void FillData(BlockHash hash, std::span<std::byte> data) {
  Rng rng(hash.low);
  for (std::byte& byte : data) byte = static_cast<std::byte>(rng.Below(256));
}

inline FrameBuffer FrameOf(const TestChain& chain, std::uint32_t index) {
  FrameBuffer frame(kTestSizes);
  FillData(chain.chain.hashes[index], frame.data());
  SealFrame(chain.BlockAt(index), chain.TokensAt(index), frame);
  return frame;
}

}  // namespace roost::worker

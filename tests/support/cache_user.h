// A request's use of the prefix cache, in small verbs for tests: match a prompt, fill the rest, release.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

// Holds blocks of one prompt. Call Release before it is destroyed.
struct CacheUser {
  BlockHash root;
  std::vector<TokenId> tokens;
  std::vector<BlockHash> hashes;
  std::vector<BlockId> blocks;
  std::optional<OwnScope> own;
  worker::EvictionGroup group{0};
  worker::TenantId tenant{};

  CacheUser(BlockHash root_in, std::vector<TokenId> tokens_in, std::uint32_t block_tokens)
      : root(root_in), tokens(std::move(tokens_in)), hashes(HashBlocks(root, tokens, block_tokens)) {}

  [[nodiscard]] worker::BlockChain chain() const { return {root, hashes, tokens, own, tenant}; }

  // Takes the ready prefix; returns its length in blocks.
  std::uint32_t Match(worker::PrefixCache& cache) {
    std::vector<worker::BlockRef> matched;
    cache.Match(chain(), static_cast<std::uint32_t>(hashes.size()), matched);
    for (const worker::BlockRef ref : matched) {
      cache.Acquire(ref);
      blocks.push_back(ref.block);
    }
    return static_cast<std::uint32_t>(matched.size());
  }

  // Allocates and commits the next block; empty if no block can be allocated.
  std::optional<worker::CommitResult> FillNext(worker::PrefixCache& cache) {
    const std::optional<BlockId> block = cache.Allocate(group);
    if (!block) return std::nullopt;
    blocks.push_back(*block);
    const auto index = static_cast<std::uint32_t>(blocks.size()) - 1;
    const worker::CommitResult result = cache.Commit(chain(), index, blocks, group);
    blocks.back() = result.block;
    return result;
  }

  // Matches, and fills the rest. Returns the number of matched blocks.
  std::uint32_t Use(worker::PrefixCache& cache) {
    const std::uint32_t matched = Match(cache);
    while (blocks.size() < hashes.size() && FillNext(cache)) {
    }
    return matched;
  }

  void Release(worker::PrefixCache& cache, const worker::RequestUse& use = {},
               const worker::RequestRetention& retention = {}, std::span<const worker::FrontLifetime> lifetimes = {}) {
    cache.ReleaseAll(blocks, use, retention, lifetimes);
    blocks.clear();
  }
};

}  // namespace roost::testing_support

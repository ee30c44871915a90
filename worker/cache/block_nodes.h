// The blocks of the prefix cache, by number and by hash. Node b describes block b: its place in the tree, its last use,
// and its place in the order of evictions. A node is one cache line, so that a request reads little of each block.
//
// Not thread-safe. Every operation is O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/big_vector.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/claim_level.h"
#include "worker/cache/eviction/eviction.h"
#include "worker/cache/eviction/idle_blocks.h"
#include "worker/cache/prefix_cache_types.h"
#include "worker/cache/structures/hash_index.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

struct BlockNode {
  BlockHash hash;
  BlockHash root;
  std::uint32_t parent = kNoBlock;
  std::uint32_t children = kNoBlock;  // root of the tree of children
  std::uint32_t position = 0;         // in blocks from the root
  std::uint32_t hit_count = 0;        // requests that found it here
  TenantId tenant;
  SourceId source;                // also of a block that is not in the tree yet
  std::uint16_t token_count = 0;  // B, or fewer for a partial block
  std::uint16_t wanted_count = 0;
  std::uint8_t group = 0;
  std::uint8_t retention_priority = kDefaultRetentionPriority;  // the default without a retention
  std::uint8_t rank = kDefaultRetentionPriority;                // while it is idle, its place in the order of evictions
  BlockOrigin origin : 1 = BlockOrigin::kPrompt;                // set at its last release
  bool ready : 1 = false;
};
static_assert(sizeof(BlockNode) == 64);  // one cache line

struct BlockNodes {
  BlockNodes(std::uint32_t block_count, std::uint32_t tokens_per_block)
      : block_tokens(tokens_per_block), by_number(block_count), by_hash(block_count) {}

  [[nodiscard]] BlockNode& operator[](std::uint32_t block) { return by_number[block]; }
  [[nodiscard]] const BlockNode& operator[](std::uint32_t block) const { return by_number[block]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(by_number.size()); }

  // The ready block with this hash; no partial one has a hash.
  [[nodiscard]] std::optional<std::uint32_t> FindByHash(BlockHash hash) const {
    const auto found = by_hash.Find(hash, [&](BlockId block) { return by_number[block.value()].hash == hash; });
    return found ? std::optional(found->value()) : std::nullopt;
  }

  [[nodiscard]] bool IsPartial(std::uint32_t block) const { return by_number[block].token_count < block_tokens; }
  [[nodiscard]] bool IsLeaf(std::uint32_t block) const { return by_number[block].children == kNoBlock; }

  // Does the block belong to the prompt of a request that uses it, or to its answer?
  [[nodiscard]] BlockOrigin OriginFor(std::uint32_t block, const RequestUse& use) const {
    const BlockNode& node = by_number[block];
    const std::uint64_t end = std::uint64_t{node.position} * block_tokens + node.token_count;
    return end <= use.prompt_token_count ? BlockOrigin::kPrompt : BlockOrigin::kDecode;
  }

  const std::uint32_t block_tokens;
  BigVector<BlockNode> by_number;
  HashIndex by_hash;  // the ready blocks, without the partial ones
};

}  // namespace roost::worker

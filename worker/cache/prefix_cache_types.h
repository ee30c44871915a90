// The arguments and results of the prefix cache.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/eviction/idle_blocks.h"
#include "worker/cache/tenant_blocks.h"

namespace roost::worker {

// Where a block's K and V came from: another worker, or the disk. 0: they were computed here.
using SourceId = StrongId<struct SourceTag, std::uint16_t>;
inline constexpr SourceId kDiskSource{0xFFFF};  // this worker's own disk

// A sequence as the cache sees it: block i has hash hashes[i] and tokens[i·B .. (i+1)·B). A view that is valid for one
// call.
struct BlockChain {
  BlockHash root;
  std::span<const BlockHash> hashes;
  std::span<const TokenId> tokens;
  std::optional<OwnScope> own = std::nullopt;
  TenantId tenant = {};  // the tenant that computes the committed blocks; a user of the cache's TenantBlocks

  // The root of the scope that the block belongs to.
  [[nodiscard]] BlockHash RootAt(std::uint32_t index) const {
    return own && index >= own->first_block ? own->root : root;
  }
  // The tenant that the block belongs to; none for blocks of a prefix that all tenants share.
  [[nodiscard]] TenantId TenantAt(std::uint32_t index) const {
    return own && index < own->first_block ? TenantId() : tenant;
  }
};

// The result of a commit. `block` takes its place in the caller's table.
struct CommitResult {
  enum class Kind {
    kStored,    // ready under its hash
    kMerged,    // an equal block was ready already: `block` is that one, and the caller's own is free
    kCollided,  // other tokens have this hash: the caller keeps its block, and nothing after it can be stored
  };
  Kind kind;
  BlockId block;
};

// A whole block that is to be committed. A view that is valid for one call.
struct NewBlock {
  BlockHash hash;
  BlockHash root;  // of the block's scope
  std::uint32_t position = 0;
  std::span<const TokenId> tokens;
  TenantId tenant = {};  // a user of the cache's TenantBlocks
  SourceId source = {};
  std::uint32_t hit_count = 0;  // where it came from
};

// A ready block, as others may be told of it. A view that is valid until the cache changes.
struct ReadyBlock {
  std::uint32_t position = 0;
  BlockHash hash;
  BlockHash parent;  // the hash that the block's hash is chained from
  BlockHash root;
  TenantId tenant = {};
  std::span<const TokenId> tokens;
};

// The whole blocks that became ready, and those that left the tree: front to back, a block may be in both.
struct CacheChanges {
  std::vector<BlockRef> stored;
  std::vector<BlockId> removed;

  void Clear() {
    stored.clear();
    removed.clear();
  }
};

// The block that continues a matched prefix by the most tokens, usually not by all of its own.
struct TailMatch {
  BlockRef block;
  std::uint32_t token_count = 0;  // of the block's first tokens; at least 1
};

// The priority of a request's blocks after it has released them, and until when it holds.
struct BlockRetention {
  std::uint32_t priority = kDefaultRetentionPriority;
  std::optional<Instant> end;  // none: no retention
};
struct RequestRetention {
  BlockRetention prompt;
  BlockRetention decode;
  TenantId tenant = {};  // its share of the pool holds the blocks
};

// The least time for which the first blocks of a prompt stay, from the end of each request that uses them.
struct FrontLifetime {
  std::uint32_t block_count = 0;
  Duration duration{};
};

// Totals since construction.
struct CacheCounters {
  std::uint64_t evicted_blocks = 0;
  std::uint64_t verification_misses = 0;  // a hash was found, but its block was not the prompt's
  std::uint64_t refused_pins = 0;         // blocks that were not pinned, because the pins' share of the pool was full
  std::uint64_t refused_retentions = 0;   // blocks whose retention was ignored, or made room: the share was full
};

// The result of pinning the blocks of a prefix.
struct PinCounts {
  std::uint32_t kept = 0;     // ready, and pinned
  std::uint32_t awaited = 0;  // not ready; pinned once they are
  std::uint32_t refused = 0;
};

struct CacheOptions {
  std::uint32_t block_tokens = 16;
  double pinned_share_limit = 0.5;        // of the pool
  double retained_share_limit = 1;        // of the pool, for the retention of each tenant
  Duration min_hold = Duration(0);        // younger blocks are not evicted, see prefix_cache.h; 0: no hold
  double held_share_limit = 0.5;          // of the blocks that are not pinned, in each group's share
  std::vector<double> group_shares = {};  // pool shares of groups 1, 2, …; the rest is group 0's
};

}  // namespace roost::worker

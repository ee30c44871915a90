// The worker's real block pool and prefix cache, with a capacity that says how much is kept beside what running
// requests hold, as simulations commonly have it: so a request never lacks memory, and what differs between policies is
// what they make of the cache.
//
//   pool   [ held by requests ][ ballast ][ free and idle ]      held + ballast = a fixed reserve, while that suffices
//                                          kept_blocks
//
// Ballast blocks are allocated and never used. Settle moves that boundary to where it belongs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/cache/block_pool.h"
#include "worker/cache/prefix_cache.h"

namespace roost::simulate {

struct KeptCacheOptions {
  std::uint32_t block_tokens = 16;
  std::uint64_t kept_tokens = 0;
  std::uint64_t reserve_tokens = 0;  // what requests hold beyond this is taken from what is kept
  std::string eviction;              // one of worker::kEvictionPolicyNames
};

class KeptCache {
 public:
  explicit KeptCache(const KeptCacheOptions& options);

  [[nodiscard]] worker::PrefixCache& cache() { return cache_; }
  [[nodiscard]] const worker::BlockPool& pool() const { return pool_; }

  // Requests are about to take up to `block_count` new blocks, for which nothing that is kept has to go yet.
  void MakeRoom(std::uint32_t block_count);
  // They have taken or released some: as much is kept as it should be.
  void Settle();

 private:
  void DropBallast();

  const std::uint32_t reserve_blocks_;
  worker::BlockPool pool_;
  worker::PrefixCache cache_;
  std::vector<BlockId> ballast_;
};

}  // namespace roost::simulate

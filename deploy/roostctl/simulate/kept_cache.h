// The worker's real block pool and prefix cache. As usual in simulations, its capacity is for blocks kept in addition
// to those of running requests. So no request ever lacks memory, and policies differ only in how they use the cache.
//
//   pool   [ held by requests ][ free ][ idle ]      idle: at most kept_blocks, less when requests hold more than
//                                                    the reserve
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/cache/block_pool.h"
#include "worker/cache/prefix_cache.h"

namespace roost::simulate {

struct KeptCacheOptions {
  std::uint32_t block_tokens = 16;
  std::uint64_t kept_tokens = 0;
  std::uint64_t reserve_tokens = 0;  // tokens that requests hold beyond this reduce the kept blocks
  std::string eviction;              // one of worker::kEvictionPolicyNames
};

class KeptCache {
 public:
  explicit KeptCache(const KeptCacheOptions& options);

  [[nodiscard]] worker::PrefixCache& cache() { return cache_; }
  [[nodiscard]] const worker::BlockPool& pool() const { return pool_; }

  // Call it after requests have taken or released blocks: evicts idle blocks over the limit.
  void Settle();

 private:
  const std::uint32_t kept_blocks_;
  worker::BlockPool pool_;
  worker::PrefixCache cache_;
};

}  // namespace roost::simulate

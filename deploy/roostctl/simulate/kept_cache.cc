#include "deploy/roostctl/simulate/kept_cache.h"

#include "common/base/check.h"
#include "worker/cache/eviction/eviction_factory.h"

namespace roost::simulate {
namespace {

std::uint32_t BlocksFor(std::uint64_t token_count, std::uint32_t block_tokens) {
  return static_cast<std::uint32_t>((token_count + block_tokens - 1) / block_tokens);
}

std::unique_ptr<worker::EvictionPolicy> MakePolicy(const KeptCacheOptions& options, std::uint32_t block_count) {
  auto policy = worker::MakeEvictionPolicy(options.eviction, block_count, {},
                                           BlocksFor(options.kept_tokens, options.block_tokens));
  ROOST_CHECK(policy.ok(), "{}", policy.error().ToString());
  return std::move(policy).value();
}

}  // namespace

KeptCache::KeptCache(const KeptCacheOptions& options)
    : kept_blocks_(BlocksFor(options.kept_tokens, options.block_tokens)),
      pool_(kept_blocks_ + BlocksFor(options.reserve_tokens, options.block_tokens)),
      cache_(pool_, {.block_tokens = options.block_tokens}, MakePolicy(options, pool_.block_count())) {}

void KeptCache::Settle() {
  while (pool_.idle_count() > kept_blocks_) {
    const bool evicted = cache_.EvictOne();
    ROOST_CHECK(evicted, "{} of {} blocks are idle", pool_.idle_count(), pool_.block_count());
  }
}

}  // namespace roost::simulate

#include <malloc.h>

#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/cache_user.h"
#include "worker/cache/eviction_factory.h"
#include "worker/cache/prefix_cache.h"

namespace roost::bench {
namespace {

using testing_support::CacheUser;
using worker::BlockPool;
using worker::BlockRef;
using worker::PrefixCache;

constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint32_t kPromptBlocks = 512;

CacheUser Prompt(std::uint64_t number) {
  Rng rng(number);
  std::vector<TokenId> tokens(kPromptBlocks * kBlockTokens);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng());
  return {BlockHash{1, 1}, std::move(tokens), kBlockTokens};
}

// A pool whose blocks are all ready and idle.
struct FullCache {
  explicit FullCache(std::uint32_t block_count, std::string_view policy = worker::kDefaultEvictionPolicy)
      : pool(block_count),
        cache(pool, {.block_tokens = kBlockTokens}, worker::MakeEvictionPolicy(policy, block_count, 1).value()) {
    for (; pool.free_count() > 0; ++prompt_count) {
      CacheUser user = Prompt(prompt_count);
      const std::uint32_t matched = user.Use(cache);
      user.Release(cache, {.number = prompt_count,
                           .prompt_token_count = kPromptBlocks * kBlockTokens,
                           .cached_token_count = matched * kBlockTokens});
      (void)cache.TakeEvents();
    }
  }

  BlockPool pool;
  PrefixCache cache;
  std::uint64_t prompt_count = 0;
};

// Match, acquire and release cached prompts of 512 blocks: so many of them that a prompt's blocks have left the
// processor's near caches when its turn comes again.
void Match(Effort effort) {
  FullCache full(effort == Effort::kQuick ? 10'000 : 1'000'000);
  const std::uint64_t prompts = effort == Effort::kQuick ? 16 : 256;
  std::vector<CacheUser> users;
  for (std::uint64_t i = 0; i < prompts; ++i) {
    // The first one has lost blocks to the last one.
    users.push_back(Prompt(1 + i * (full.prompt_count - 2) / prompts));
    users.back().blocks.reserve(kPromptBlocks);
  }
  std::vector<BlockRef> matched;
  const double seconds = MedianSeconds(effort, [&] {
    for (CacheUser& user : users) {
      matched.clear();
      full.cache.Match(user.chain(), kPromptBlocks, matched);
      ROOST_CHECK(matched.size() == kPromptBlocks);
      for (const BlockRef ref : matched) {
        full.cache.Acquire(ref);
        user.blocks.push_back(ref.block);
      }
      user.Release(full.cache);
    }
  });
  Figure("cache_match_ns_per_block", seconds * 1e9 / static_cast<double>(prompts * kPromptBlocks), "ns");
}

// What a full cache of so many blocks has allocated, but for the tokens that it keeps.
void Bytes(Effort effort) {
  const std::uint32_t block_count = effort == Effort::kQuick ? 10'000 : 1'000'000;
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = allocated();
  const FullCache full(block_count);
  const std::size_t tokens = std::size_t{block_count} * kBlockTokens * sizeof(TokenId);
  Figure("cache_bytes_per_block", static_cast<double>(allocated() - before - tokens) / block_count, "bytes");
}

// Allocations that each evict, because those before stay referenced.
void Evict(Effort effort, std::uint32_t block_count, std::string_view figure) {
  constexpr std::uint32_t kAllocations = 1000;
  FullCache full(block_count);
  const std::uint64_t evicted_before = full.cache.counters().evicted_blocks;
  std::uint64_t allocations = 0;
  const double seconds = MedianSeconds(effort, [&] {
    for (std::uint32_t i = 0; i < kAllocations; ++i) allocations += full.cache.Allocate() ? 1 : 0;
    (void)full.cache.TakeEvents();
  });
  ROOST_CHECK(full.cache.counters().evicted_blocks - evicted_before == allocations && allocations >= kAllocations);
  Figure(figure, seconds * 1e9 / kAllocations, "ns");
}

}  // namespace

// What the cache's bookkeeping costs with a full pool.
void BenchCache(Effort effort) {
  Match(effort);
  Bytes(effort);
  Evict(effort, 10'000, "cache_evict_ns_10k");
  Evict(effort, effort == Effort::kQuick ? 20'000 : 1'000'000, "cache_evict_ns_1m");
}

}  // namespace roost::bench

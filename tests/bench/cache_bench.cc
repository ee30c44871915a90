#include <malloc.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/bench/bench.h"
#include "tests/support/cache_user.h"
#include "worker/cache/cache_travel.h"
#include "worker/cache/eviction/eviction_factory.h"
#include "worker/cache/prefix_cache.h"
#include "worker/transfer/readable_blocks.h"

namespace roost::bench {
namespace {

using testing_support::CacheUser;
using worker::BlockPool;
using worker::BlockRef;
using worker::PrefixCache;

constexpr std::uint32_t kPromptBlocks = 512;

CacheUser Prompt(std::uint64_t number) {
  Rng rng(number);
  std::vector<TokenId> tokens(kPromptBlocks * kBlockTokens);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng());
  return {BlockHash{1, 1}, std::move(tokens), kBlockTokens};
}

// The places of a prompt's blocks: one after the other, or scattered, because other prompts were computed at the same
// time.
enum class Layout { kTogether, kScattered };

// A pool whose blocks are all ready and idle. The last blocks of a prompt cost five times as much as the first.
struct FullCache {
  explicit FullCache(std::uint32_t block_count, Layout layout = Layout::kTogether)
      : pool(block_count),
        cache(pool, {.block_tokens = kBlockTokens},
              worker::MakeEvictionPolicy(worker::kDefaultEvictionPolicy, block_count).value()) {
    cache.claims().SetRecomputeCost({.growth = 4.0F / kPromptBlocks});
    const std::uint32_t at_once = layout == Layout::kTogether ? 1 : std::min(61U, block_count / kPromptBlocks);
    while (pool.free_count() > 0) Fill(at_once);
  }

  void Fill(std::uint32_t at_once) {
    std::vector<CacheUser> users;
    for (std::uint32_t i = 0; i < at_once; ++i) users.push_back(Prompt(prompt_count + i));
    for (std::uint32_t block = 0; block < kPromptBlocks; ++block) {
      for (CacheUser& user : users) ROOST_CHECK(user.FillNext(cache).has_value());
    }
    for (CacheUser& user : users) {
      user.Release(cache, {.number = prompt_count++, .prompt_token_count = kPromptBlocks * kBlockTokens});
    }
    (void)cache.TakeEvents();
  }

  BlockPool pool;
  PrefixCache cache;
  std::uint64_t prompt_count = 0;
};

// Matches, acquires and releases cached prompts of 512 blocks: so many that a prompt's blocks have left the CPU's fast
// caches when its turn comes again.
void Match(Effort effort, Layout layout, std::string_view figure) {
  FullCache full(effort == Effort::kQuick ? 10'000 : 1'000'000, layout);
  const std::uint64_t prompts = effort == Effort::kQuick ? 16 : 256;
  std::vector<CacheUser> users;
  for (std::uint64_t i = 0; i < prompts; ++i) {
    // The first prompts have lost blocks to the last ones.
    const std::uint64_t lost = full.prompt_count - full.pool.block_count() / kPromptBlocks;
    users.push_back(Prompt(lost + i * (full.prompt_count - lost) / prompts));
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
  Figure(figure, seconds * 1e9 / static_cast<double>(prompts * kPromptBlocks), "ns");
}

// The memory that a full cache of this many blocks has allocated, without the tokens that it stores.
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

// Allocations that each evict a block, because earlier ones stay referenced.
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

// Blocks without bytes.
class NullReader final : public worker::BlockReader {
 public:
  [[nodiscard]] std::size_t block_bytes() const override { return 0; }
  void Read(BlockId /*block*/, std::span<std::byte> /*to*/, const std::function<void()>& may_change) const override {
    may_change();
  }
};

// A full cache whose blocks other workers may fetch.
struct ReadableCache : FullCache {
  explicit ReadableCache(std::uint32_t block_count)
      : FullCache(block_count), readable(std::make_unique<NullReader>(), block_count, kBlockTokens) {
    for (std::uint32_t block = 0; block < block_count; ++block) {
      if (!cache.IsReady(BlockId(block))) continue;
      const worker::ReadyBlock ready = Describe(cache.tree(), BlockId(block));
      const worker::PublishedBlock published{
          .block = BlockId(block),
          .about = {.position = ready.position, .hash = ready.hash, .parent = ready.parent, .root = ready.root},
          .tokens = ready.tokens};
      readable.Publish({&published, 1});
    }
    cache.NoteChanges(changes);
  }

  worker::ReadableBlocks readable;
  worker::CacheChanges changes;
};

// The nanoseconds that an eviction takes more where other workers may fetch the blocks and none does: it is noted, and
// the block is retracted before a step writes to it, with those that the same step evicts. In turns, the fastest of
// each.
void EvictReadable(Effort effort, std::uint32_t block_count, std::string_view figure) {
  constexpr int kSteps = 16;
  constexpr int kEvictions = 64;  // of a step
  FullCache stay(block_count);
  ReadableCache travel(block_count);
  const SteadyClock clock;
  const auto seconds_of = [&](FullCache& full, const auto& end_step) {
    const Instant begin = clock.Now();
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < kEvictions; ++i) ROOST_CHECK(full.cache.Allocate().has_value());
      end_step();
      (void)full.cache.TakeEvents();
    }
    return ToSeconds(clock.Now() - begin);
  };
  const auto stays = [&] { return seconds_of(stay, [] {}); };
  const auto travels = [&] {
    return seconds_of(travel, [&] {
      travel.readable.Retract(travel.changes.removed);
      travel.changes.Clear();
    });
  };
  double seconds_of_stay = stays();
  double seconds_of_travel = travels();
  for (int round = effort == Effort::kQuick ? 0 : 8; round > 0; --round) {
    seconds_of_stay = std::min(seconds_of_stay, stays());
    seconds_of_travel = std::min(seconds_of_travel, travels());
  }
  Figure(figure, (seconds_of_travel - seconds_of_stay) * 1e9 / kSteps / kEvictions, "ns");
}

}  // namespace

// The cost of the cache's bookkeeping with a full pool.
void BenchCache(Effort effort) {
  Match(effort, Layout::kTogether, "cache_match_ns_per_block");
  Match(effort, Layout::kScattered, "cache_match_scattered_ns_per_block");
  Bytes(effort);
  Evict(effort, 10'000, "cache_evict_ns_10k");
  Evict(effort, effort == Effort::kQuick ? 20'000 : 1'000'000, "cache_evict_ns_1m");
  EvictReadable(effort, 10'000, "cache_evict_readable_ns_10k");
  EvictReadable(effort, effort == Effort::kQuick ? 20'000 : 1'000'000, "cache_evict_readable_ns_1m");
}

}  // namespace roost::bench

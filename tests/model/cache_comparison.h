// Compares all that a prefix cache reports about its state with a naive one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "tests/model/expect.h"
#include "tests/model/naive_cache.h"
#include "worker/cache/cache_views.h"
#include "worker/cache/prefix_cache.h"

namespace roost::testing_support {

class CacheComparison {
 public:
  CacheComparison(worker::PrefixCache& cache, const NaiveCache& naive, const worker::BlockPool& pool,
                  std::uint32_t group_count)
      : cache_(cache), naive_(naive), pool_(pool), group_count_(group_count) {}

  // A listener's view, since the last time: the same blocks are stored and removed, in the same order.
  Result<void> OfEvents() {
    std::vector<NaiveCache::Event> heard;
    for (const wire::CacheEvent& event : cache_.TakeEvents()) {
      for (const BlockHash hash : event.removed) heard.push_back({NaiveCache::Event::Kind::kRemoved, hash});
      std::size_t position = event.stored.first_position;
      for (const BlockHash hash : event.stored.hashes)
        heard.push_back({NaiveCache::Event::Kind::kStored, hash, position++});
    }
    return Expect(heard == naive_.events, "{} events, others than they should be", heard.size());
  }

  Result<void> OfCounts() const {
    const auto compare = [](std::string_view what, std::uint64_t real, std::uint64_t expected) {
      return Expect(real == expected, "{} is {}, should be {}", what, real, expected);
    };
    ROOST_RETURN_IF_ERROR(Expect(cache_.digest() == naive_.Digest(), "the digest is wrong"));
    ROOST_RETURN_IF_ERROR(compare("ready", cache_.ready_count(), naive_.ready_count()));
    ROOST_RETURN_IF_ERROR(compare("free", pool_.free_count(), naive_.free_count()));
    ROOST_RETURN_IF_ERROR(compare("pinned", cache_.claims().pinned_count(), naive_.pinned_count()));
    ROOST_RETURN_IF_ERROR(compare("available", cache_.available_count(), naive_.available_count()));
    ROOST_RETURN_IF_ERROR(compare("held", cache_.claims().held_count(), naive_.held_count()));
    for (std::uint32_t group = 0; group < group_count_; ++group) {
      const std::uint32_t ready = cache_.claims().ready_count_of(worker::EvictionGroup(group));
      ROOST_RETURN_IF_ERROR(compare("ready of a group", ready, naive_.ready_count_of(group)));
    }
    const worker::CacheCounters& real = cache_.counters();
    const worker::CacheCounters& expected = naive_.counters;
    ROOST_RETURN_IF_ERROR(compare("evicted", real.evicted_blocks, expected.evicted_blocks));
    ROOST_RETURN_IF_ERROR(compare("misses", real.verification_misses, expected.verification_misses));
    return compare("refused pins", real.refused_pins, expected.refused_pins);
  }

  Result<void> OfGhosts() const {
    for (const std::optional<std::uint64_t>& ghost : naive_.ghosts()) {
      if (ghost) ROOST_RETURN_IF_ERROR(Expect(cache_.WasEvicted({0, *ghost}), "an evicted block is forgotten"));
    }
    for (const NaiveCache::Entry& entry : naive_.entries()) {
      if (naive_.IsPartial(entry)) continue;
      ROOST_RETURN_IF_ERROR(Expect(cache_.WasEvicted(entry.hash) == naive_.WasEvicted(entry.hash), "a ready ghost"));
    }
    return {};
  }
  Result<void> OfGhosts(std::span<const BlockHash> hashes) const {
    for (const BlockHash hash : hashes) {
      ROOST_RETURN_IF_ERROR(Expect(cache_.WasEvicted(hash) == naive_.WasEvicted(hash), "a block is a ghost, or not"));
    }
    return {};
  }

  // All blocks, each once, at its position, after its parent.
  Result<void> OfSnapshot() const {
    std::vector<BlockHash> seen;
    const auto is_seen = [&seen](BlockHash hash) { return std::find(seen.begin(), seen.end(), hash) != seen.end(); };
    for (const wire::StoredRun& run : worker::Snapshot(cache_.tree())) {
      for (std::size_t i = 0; i < run.hashes.size(); ++i) {
        const NaiveCache::Entry* entry = naive_.WithHash(run.hashes[i]);
        ROOST_RETURN_IF_ERROR(Expect(entry != nullptr && !is_seen(entry->hash), "the snapshot has a wrong block"));
        const std::size_t position = run.first_position + i;
        ROOST_RETURN_IF_ERROR(
            Expect(entry->prefix.size() == (position + 1) * naive_.block_tokens(), "a block is out of place"));
        if (entry->parent) {
          const BlockHash parent = naive_.Get(*entry->parent)->hash;
          ROOST_RETURN_IF_ERROR(Expect(is_seen(parent), "a block comes before its parent"));
          ROOST_RETURN_IF_ERROR(Expect(i == 0 || parent == run.hashes[i - 1], "a run joins two prefixes"));
        }
        seen.push_back(entry->hash);
      }
    }
    return Expect(seen.size() == naive_.ready_count(), "the snapshot has {} blocks", seen.size());
  }

 private:
  worker::PrefixCache& cache_;
  const NaiveCache& naive_;
  const worker::BlockPool& pool_;
  const std::uint32_t group_count_;
};

}  // namespace roost::testing_support

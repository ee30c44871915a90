// A small cache of keys only, which shows how well a ranking would do. It sees a sample of the real cache's releases,
// has the same share of its blocks, and counts the hits that it would have had (Waldspurger and others, Cache modeling
// and optimization using miniature simulations, USENIX ATC 2017). As in the real cache only leaves are evicted. The
// tree of the sampled blocks is learned from the order in which requests release theirs, back to front:
//
//     request:   a ─ B ─ c ─ d ─ E ─ F     (capitals are sampled)      told of: F, E, B     tree: B ◀─ E ◀─ F
//
// Not thread-safe. Every operation is O(1). About 100 bytes per entry; no allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "worker/cache/hash_index.h"
#include "worker/cache/ranked_lists.h"

namespace roost::worker {

// A request releases a block.
struct ShadowUse {
  std::uint64_t key = 0;
  std::uint32_t position = 0;  // in blocks from the root
  std::uint32_t reuse_class = 0;
  ReleaseTime time;
};

class ShadowCache {
 public:
  ShadowCache(std::uint32_t entry_count, Ranking ranking);

  // A request's later blocks come first.
  void Use(const ShadowUse& use, const ReuseModel& model);

  // All blocks of the request have been seen. Returns how many were hits: held together with every sampled block before
  // them.
  [[nodiscard]] std::uint32_t EndRequest();

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t position = 0;
    std::optional<BlockId> parent;  // the sampled block before it, once a request has shown it; of a lower position
    std::uint32_t child_count = 0;
  };

  // An entry without a key: a new one, or that of an evicted block.
  [[nodiscard]] BlockId TakeEntry(const ReuseModel& model, std::uint64_t request);
  void Evict(BlockId entry);
  void LinkLatestTo(BlockId parent);

  Ranking ranking_;
  HashIndex index_;
  RankedLists lists_;
  std::vector<Entry> entries_;
  std::optional<BlockId> latest_;  // the request's entry that was used last
  std::uint32_t hits_ = 0;         // the request's blocks since the last missing one
};

}  // namespace roost::worker

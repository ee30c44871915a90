// A small cache of keys only, which shows how well a ranking would do: it sees a sample of the releases that the real
// cache sees, has the same share of its blocks, and counts what it would have hit (Waldspurger and others, Cache
// modeling and optimization using miniature simulations, USENIX ATC 2017). As in the real cache only leaves are
// evicted. The tree of the sampled blocks is learned from the order in which requests release theirs, back to front:
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

// A request lets go of a block.
struct ShadowUse {
  std::uint64_t key = 0;
  std::uint32_t position = 0;  // in blocks from the root
  std::uint32_t reuse_class = 0;
  ReleaseTime time;
};

class ShadowCache {
 public:
  ShadowCache(std::uint32_t entry_count, Ranking ranking);

  // A request's later blocks are told of first.
  void Use(const ShadowUse& use, const ReuseModel& model);

  // The request's blocks have all been told of. How many of them were hits: held, and every one before them too.
  [[nodiscard]] std::uint32_t EndRequest();

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t position = 0;
    std::optional<BlockId> parent;  // the sampled block before it, once a request has shown it; of a lower position
    std::uint32_t child_count = 0;
  };

  // An entry without a key: a new one, or that of the block that goes.
  [[nodiscard]] BlockId TakeEntry(const ReuseModel& model, std::uint64_t request);
  void Evict(BlockId entry);
  void LinkLatestTo(BlockId parent);

  Ranking ranking_;
  HashIndex index_;
  RankedLists lists_;
  std::vector<Entry> entries_;
  std::optional<BlockId> latest_;  // the request's entry that was told of last
  std::uint32_t hits_ = 0;         // of the request's blocks since the last that was missing
};

}  // namespace roost::worker

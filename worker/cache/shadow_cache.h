// A small cache of keys alone that says how a ranking would do: it sees a sample of the releases that the real cache
// sees, has the same share of its blocks, and counts what it would have hit (Waldspurger and others, Cache modeling and
// optimization using miniature simulations, USENIX ATC 2017). It knows nothing of the tree: a block may go before its
// children, which costs little, since blocks of a request are let go of back to front.
//
// Not thread-safe. Every operation is O(1). About 70 bytes per entry; no allocation after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/cache/hash_index.h"
#include "worker/cache/ranked_lists.h"

namespace roost::worker {

class ShadowCache {
 public:
  enum class Access { kHit, kMiss };

  ShadowCache(std::uint32_t entry_count, Ranking ranking);

  // A request that had the block has let go of it.
  Access Use(std::uint64_t key, std::uint32_t reuse_class, ReleaseTime time, const ReuseModel& model);

 private:
  // An entry without a key: a new one, or that of the block to go.
  [[nodiscard]] BlockId TakeEntry(const ReuseModel& model, std::uint64_t request);

  Ranking ranking_;
  HashIndex index_;
  RankedLists lists_;
  std::vector<std::uint64_t> keys_;  // by entry
};

}  // namespace roost::worker

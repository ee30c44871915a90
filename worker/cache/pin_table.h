// The pinned blocks, by hash: blocks in the cache, and blocks that will be pinned once they are computed. The cache
// asks the table when a block is stored, and the table tells the cache when a pin ends.
//
// Not thread-safe. Contains is O(1); Add, Remove and TakeExpired O(hashes · log pins). Bounded by what the caller adds.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"

namespace roost::worker {

class PinTable {
 public:
  // Pins `hash` until `end`, or for good. Replaces an earlier pin of it.
  void Add(BlockHash hash, std::optional<Instant> end);

  void Remove(BlockHash hash);

  [[nodiscard]] bool Contains(BlockHash hash) const { return !pins_.empty() && pins_.contains(hash); }
  [[nodiscard]] std::size_t size() const { return pins_.size(); }

  // Removes the pins that have ended, and appends their hashes: the latest end first, and of equal ends the one added
  // last. So a prefix that was added front to back comes back to front.
  void TakeExpired(Instant now, std::vector<BlockHash>& expired);

  // Removes all pins, and appends their hashes in no particular order.
  void TakeAll(std::vector<BlockHash>& hashes);

 private:
  using Ends = std::multimap<Instant, BlockHash>;

  std::unordered_map<BlockHash, std::optional<Ends::iterator>, BlockHashHasher> pins_;
  Ends ends_;
};

}  // namespace roost::worker

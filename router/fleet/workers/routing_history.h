// The probable contents of a worker without cache events: the prompts that this router sent it, kept in the worker's
// part of the index the way a cache would keep them.
//
//   most recent ─► a0 a1 a2 a3 · b1 b2 (a0 was used again, it is further up) · … ◄─ dropped first
//
// A chain is marked as used from back to front, so a block was used no earlier than the blocks after it. The least
// recently used block is therefore always a leaf, and the worker's part of the index is always prefix-closed. Blocks
// are dropped when there are more of them than the worker reports, and when they were not used for `kLife`: by then
// requests of other routers may have taken their place.
//
// Not thread-safe. The index outlives it; the destructor removes its entries there. Use is O(chain), the rest is O(1)
// per dropped block. It takes about 120 bytes per block, in addition to the index.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/index/prefix_index.h"

namespace roost::router {

class RoutingHistory {
 public:
  static constexpr Duration kLife = std::chrono::minutes(10);

  // `worker` must have no blocks in `index`.
  RoutingHistory(PrefixIndex& index, WorkerSlot worker) : index_(index), worker_(worker) {}
  ~RoutingHistory() { index_.Clear(worker_); }
  RoutingHistory(const RoutingHistory&) = delete;
  RoutingHistory& operator=(const RoutingHistory&) = delete;

  // The worker has computed, or found in its cache, all of `chain`, front to back. `now` never goes back.
  void Use(std::span<const BlockHash> chain, Instant now);

  // Keeps at most `block_count` blocks, and none that was not used for kLife.
  void Trim(std::size_t block_count, Instant now);

  // The last use of a block; empty of one that it does not have.
  [[nodiscard]] std::optional<Instant> UsedAt(BlockHash block) const;
  // Forgets blocks that were not used after `at`: the worker no longer held one that was used then, and a cache drops
  // what was used before that even sooner.
  void ForgetUnusedSince(Instant at);

  [[nodiscard]] std::size_t block_count() const { return blocks_.size(); }

 private:
  struct Block {
    BlockHash hash;
    Instant used_at;
  };
  using Blocks = std::list<Block>;

  // Forgets the least recently used blocks for as long as `is_old` says so of the next one.
  template <typename IsOld>
  void DropWhile(IsOld is_old);

  PrefixIndex& index_;
  const WorkerSlot worker_;
  Blocks blocks_;  // most recently used first
  std::unordered_map<BlockHash, Blocks::iterator, BlockHashHasher> places_;
};

}  // namespace roost::router

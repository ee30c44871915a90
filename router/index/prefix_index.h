// Finds the workers of one revision of a model that hold a prompt's blocks. One writer applies the workers' events; any
// thread can match, wait-free: no lock, no retry, and no allocation once its buffer has grown.
//
//   low 64 bits of a block's hash ──► table (block_table.h) ──► up to two lanes, or an interned set (holder_sets.h)
//   lane (lanes.h) ──► the worker that holds the blocks; none once it was cleared
//
// The index relies on prefix closure: a worker that holds a block holds all the blocks before it. So the holders of a
// chain only shrink along it, and a lookup is a bisection (chain_search.h). While a worker's view is not closed (events
// were lost, or its snapshot is on its way), its match is some depth at which it does hold a block. A match may be
// wrong in any case: keys are 64 of 128 bits, and the worker may evict meanwhile. That costs one misrouted request.
//
// A worker's disk is one more holder: its blocks are stored, removed and matched under a slot of its own (DiskOf).
//
// Consistency: a lookup that runs concurrently with the writer sees each block that it probes as it was at some time
// during the lookup. So a worker's depth is between the least and the greatest that it had meanwhile.
//
// Memory: about 20 to 23 bytes per distinct block, regardless of the number of workers that hold it, and 112 bytes or
// more per distinct set of three or more holders. When the budget is used up, the deepest blocks are shed
// (depth_limit.h): the table forgets them, front parts stay, and the rest stays closed. Age does not matter, because
// workers evict old blocks themselves. For a worker whose blocks were shed, the index stores nothing deeper than the
// first of them, until the worker is cleared (a snapshot does that) or has removed all missing blocks. A table never
// shrinks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/prefix/worker_match.h"
#include "router/index/block_table.h"
#include "router/index/chain_search.h"
#include "router/index/index_budget.h"

namespace roost::router {

// The result of a lookup, and the lookup's memory: about 280 KiB. For one thread at a time. Keep it for the next
// lookup, which is faster because of what it remembers (ChangeMemory).
class MatchBuffer {
 public:
  // Deepest first.
  [[nodiscard]] std::span<const WorkerMatch> matches() const { return std::span(matches_).first(match_count_); }

 private:
  friend class PrefixIndex;

  std::array<WorkerMatch, kMaxLanes + 1> matches_;
  std::size_t match_count_ = 0;
  ChainSearch<BlockTable::Search> search_;
};

class PrefixIndex {
 public:
  static constexpr std::size_t kMaxSlots = 2 * std::size_t{kMaxWorkerSlots};  // of workers and their disks

  // Without a memory bound.
  PrefixIndex();
  // Several indexes of one writer may share a budget, first come, first served. Each takes about 190 KiB to begin with,
  // even beyond the budget.
  explicit PrefixIndex(std::shared_ptr<IndexBudget> budget);
  ~PrefixIndex();

  // ---- any thread ----

  // Workers that hold at least the first block of `hashes` (a chain, front to back; less than 2^32 blocks), deepest
  // first. Probes O(changes of holders · log(blocks)).
  void Match(std::span<const BlockHash> hashes, MatchBuffer& buffer) const;
  // The same, with a thread-local buffer.
  [[nodiscard]] std::vector<WorkerMatch> Match(std::span<const BlockHash> hashes) const;

  // ---- writer ----

  // `worker` now has blocks with these hashes: a part of a chain that begins at the chain's block `first_position`.
  // Amortised O(1) per block.
  void Store(WorkerSlot worker, std::uint32_t first_position, std::span<const BlockHash> hashes);
  // `worker` no longer has these blocks. Tail first; otherwise the rest is not closed meanwhile. Amortised O(1) per
  // block.
  void Remove(WorkerSlot worker, std::span<const BlockHash> hashes);
  // Forgets all blocks of `worker`, at once for every later lookup; the table drops them gradually. O(1), but its next
  // Store is O(kMaxLanes).
  void Clear(WorkerSlot worker);

  // The sums of `worker`'s reports since it was cleared, for comparison with the totals that it reports. Block count
  // and digest are sums over the reports, modulo 2^64, regardless of the blocks in the table. So they stay exact when
  // blocks are shed, or a shed block is removed. If a worker reports a block twice, the digest is wrong, as it should
  // be.
  struct WorkerView {
    std::uint64_t block_count = 0;
    BlockHash digest;  // xor of the hashes
    // The blocks in the table. Fewer than block_count: some were shed (or two hashes share their low half), and the
    // view is incomplete. More than block_count: the worker's events contradict each other.
    std::uint64_t indexed_block_count = 0;
  };
  [[nodiscard]] WorkerView View(WorkerSlot worker) const;

  // Scans up to this many buckets of five entries for shed blocks and blocks of cleared workers, and frees memory that
  // no reader can see any more. Store and Remove do some of this too; call it regularly for times without them.
  void Sweep(std::size_t bucket_count);

  // The number of distinct blocks, including those that wait to be swept.
  [[nodiscard]] std::uint64_t block_count() const;
  // All memory that grows with the contents, which is the index's charge on the budget.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  // The number of interned sets of three and more workers.
  [[nodiscard]] std::uint64_t holder_set_count() const;
  // The number of workers' blocks that were dropped or left out because memory was full, since the start.
  [[nodiscard]] std::uint64_t shed_block_total() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace roost::router

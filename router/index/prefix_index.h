// Which worker holds which blocks, of one model fleet (a name space of block hashes of its own). One writer applies the
// workers' events; any thread matches, wait-free: no lock, no retry, and no allocation once its buffer has grown.
//
//   low 64 bits of a block's hash ──► table (block_table.h) ──► up to two lanes, or an interned set (holder_sets.h)
//   lane (lanes.h) ──► the worker whose blocks these are, or nobody's since it was cleared
//
// Leans on prefix closure: a worker that holds a block holds all the blocks before it, so the holders of a chain only
// shrink along it, and a lookup is a bisection (chain_search.h). While a worker's view is not closed (events were lost,
// its snapshot is on its way), its match is some depth at which it does hold a block, never a crash. A match may be
// wrong anyway: keys are 64 of 128 bits, and the worker may evict meanwhile; it costs one misrouted request.
//
// Consistency: a lookup beside the writer sees each block that it probes as it was at some time during the lookup. So a
// worker's depth lies between the least and the greatest that it had meanwhile.
//
// Memory: about 20 to 23 bytes per distinct block, however many workers hold it, and 112 bytes or more per distinct set
// of three or more holders. With a budget, the deepest blocks are shed when it is used up (depth_limit.h): the table
// forgets them, front parts stay, and all that is kept stays closed. Age plays no part: what is old, workers evict. A
// worker whose blocks were shed takes up nothing deeper than the first of those, until it is cleared (a snapshot does
// that) or all that is missing is removed. A table never shrinks.
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

// The answer to a lookup, and the lookup's memory: some 280 KiB. For one thread at a
// time; keep it for the next lookup, which is faster for what it remembers (change_memory.h).
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
  static constexpr std::size_t kMaxWorkers = 1024;  // slots are below

  // Without a bound.
  PrefixIndex();
  // Several indexes of one writer may share a budget; who comes first is served first, and each takes about 150 KiB to
  // begin with, whatever the budget says.
  explicit PrefixIndex(std::shared_ptr<IndexBudget> budget);
  ~PrefixIndex();

  // ---- any thread ----

  // Workers that hold at least the first block of `hashes` (a chain, front to back; less than 2^32 blocks), deepest
  // first. Probes O(changes of holders · log(blocks)).
  void Match(std::span<const BlockHash> hashes, MatchBuffer& buffer) const;
  // The same with a buffer of the thread's.
  [[nodiscard]] std::vector<WorkerMatch> Match(std::span<const BlockHash> hashes) const;

  // ---- writer ----

  // `worker` has blocks with these hashes now, a part of a chain whose first block is block number `first_position` of
  // it. Amortised O(1) per block.
  void Store(WorkerSlot worker, std::uint32_t first_position, std::span<const BlockHash> hashes);
  // `worker` has them no more. Tail first, or what remains is not closed meanwhile. Amortised O(1) per block.
  void Remove(WorkerSlot worker, std::span<const BlockHash> hashes);
  // Forgets all that `worker` holds, at once for every lookup from now on; the table is rid of it by and by. O(1), or
  // O(kMaxWorkers) at its first block afterwards.
  void Clear(WorkerSlot worker);

  // What `worker` reported since it was cleared: for comparison with what it says that it holds. Block count and digest
  // are sums over the reports, modulo 2^64, whatever became of the blocks in the table. So they are exact with
  // shedding, and no Remove of a shed block is mistaken; a worker that reports a block twice gets a wrong digest, which
  // is what a digest is for.
  struct WorkerView {
    std::uint64_t block_count = 0;
    BlockHash digest;  // xor of the hashes
    // In the table. Fewer than reported: some were shed (or two hashes share their low half), the view is not complete.
    // More than reported can only come from events that contradict each other.
    std::uint64_t indexed_block_count = 0;
  };
  [[nodiscard]] WorkerView View(WorkerSlot worker) const;

  // Looks through up to so many buckets of five entries for blocks of cleared workers and shed ones, and frees memory
  // that no reader sees any more. Store and Remove do some of this, too; call it now and then for when they do not
  // come.
  void Sweep(std::size_t bucket_count);

  // Distinct blocks, those included that wait to be swept.
  [[nodiscard]] std::uint64_t block_count() const;
  // All the memory that grows with what is stored; the index's part of the budget.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  // Sets of three and more workers that are interned now.
  [[nodiscard]] std::uint64_t holder_set_count() const;
  // Blocks of workers that were dropped or left out because memory was full, since the start.
  [[nodiscard]] std::uint64_t shed_block_total() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace roost::router

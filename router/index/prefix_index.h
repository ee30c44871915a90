// Which worker holds which blocks. One writer (the link thread) applies the workers' events; any thread matches.
//
// Leans on prefix closure: a worker that holds a block holds all the blocks before it, so the holders of a chain only
// shrink along it. Lookup is bisection: equal holders at both ends of an interval prove the interval uniform, so it
// probes about (distinct holder sets) · log2(length) blocks. While a worker's view is not prefix-closed (its events
// were lost and the snapshot is on its way) its match may be wrong; callers must live with a wrong match anyway, which
// costs one misrouted request.
//
// Inside: one hash table from block hash to holders, under a reader-writer lock. Clear walks the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "router/worker_match.h"

namespace roost::router {

class PrefixIndex {
 public:
  PrefixIndex();
  ~PrefixIndex();

  // Writer. Idempotent: storing what is held and removing what is not are no errors.
  void Store(WorkerSlot worker, std::span<const BlockHash> hashes);
  void Remove(WorkerSlot worker, std::span<const BlockHash> hashes);
  // Forgets all that `worker` holds.
  void Clear(WorkerSlot worker);

  // Any thread. Workers that hold at least the first block of `hashes` (a chain, front to back), deepest first.
  [[nodiscard]] std::vector<WorkerMatch> Match(std::span<const BlockHash> hashes) const;

  // Any thread. What `worker` is thought to hold, for comparison with what it reports.
  struct WorkerView {
    std::uint64_t block_count = 0;
    BlockHash digest;  // xor of the hashes held
  };
  [[nodiscard]] WorkerView View(WorkerSlot worker) const;

  [[nodiscard]] std::uint64_t block_count() const;  // distinct blocks

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roost::router

// A copy of the set of ready blocks, updated by the cache's events, for snapshots outside of the engine's thread:
// neither events nor snapshots take time on that thread.
//
//   log, in the order of storing    [a0 a1 a2][b0 b1 gone gone][a3][gone][c0 c1] …      top →
//   snapshot                         a0 a1 a2  b0 b1            a3        c0 c1
//
// A block is stored after its parent and removed before it, so the order of storing has parents before children, and a
// removal leaves the front of a run. A snapshot is one pass over the log. Its runs are those in which the blocks were
// stored (an event does not name the parent of its first block, so later runs can not be joined to it). If the middle
// of a run was removed nevertheless, the run is split, each part at its position.
//
// The log has 1.5 times as many slots as there are blocks; when it is full, the remaining blocks move to its front.
//
// A mirror of the blocks on the worker's disk takes the events of that set, which has the same rules.
//
// Not thread-safe. Store and remove are O(1) expected per block, amortised over the moves (30 ms at a million blocks,
// after every half million stored); a snapshot is O(blocks). 43 bytes per block of the pool, in addition to the cache's
// own; only snapshots allocate. Events that break the cache's rules stop the process; after lost events call Assign.
// Resumable blocks are a set beside, which is empty where any block is one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/prefix/keyed_slots.h"
#include "common/wire/messages.h"

namespace roost::worker {

class SnapshotMirror {
 public:
  enum class Set : std::uint8_t { kPool, kDisk };

  // For a pool, or a disk, of `block_count` blocks.
  explicit SnapshotMirror(std::uint32_t block_count, Set set = Set::kPool);

  // The cache's events, in order and each once; those of the other set are skipped.
  void Apply(std::span<const wire::CacheEvent> events);

  // Forgets everything and takes these runs, parents before children, and which of their blocks are resumable.
  void Assign(std::span<const wire::StoredRun> runs, std::span<const BlockHash> resumable = {});

  // All ready blocks as runs, parents before children.
  [[nodiscard]] std::vector<wire::StoredRun> Snapshot() const;

  // The same values as in wire::Load after the same events.
  [[nodiscard]] BlockHash digest() const { return digest_; }
  [[nodiscard]] std::uint32_t ready_count() const { return log_.size(); }

  // See wire::CacheEvent::resumable.
  [[nodiscard]] const std::unordered_set<BlockHash, BlockHashHasher>& resumable() const { return resumable_; }
  [[nodiscard]] BlockHash resumable_digest() const { return resumable_digest_; }

 private:
  enum class Place : std::uint8_t {
    kGone,       // no block, or one that was removed
    kFirst,      // the first of a run
    kContinues,  // continues the run of the slot before, unless that is gone
  };

  void Store(const wire::StoredRun& run);
  void Remove(BlockHash hash);
  void RemoveAll(std::span<const BlockHash> hashes);
  void AddResumable(BlockHash hash);
  void DropResumable(BlockHash hash);
  void Pack();
  // The first slot behind the run that begins at `slot`.
  [[nodiscard]] std::uint32_t EndOfRun(std::uint32_t slot) const;

  const Set set_;
  std::uint32_t top_ = 0;                 // the next slot to be used
  KeyedSlots<BlockHash> log_;             // the ready blocks
  std::vector<std::uint32_t> positions_;  // by slot: in blocks from the root
  std::vector<Place> places_;             // by slot
  BlockHash digest_;
  std::unordered_set<BlockHash, BlockHashHasher> resumable_;
  BlockHash resumable_digest_;
};

}  // namespace roost::worker

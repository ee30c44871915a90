// Keeps one worker's part of the index equal to what the worker holds, during one epoch of its link:
//
//               chunk 0, not last              last chunk
//   awaiting ──────────────────────► receiving ──────────► in sync
//      ▲  └────────────── chunk 0, last ───────────────────►  │
//      └───── digest or count differs, chunk missing, more blocks than the pool: the router asks for a snapshot
//
// The worker's disk is a second set with a digest and a count of its own (DiskOf). One snapshot brings both, and a
// difference in either asks for it.
//
// Snapshots and steps share one sequence of numbers. A gap means that tokens are lost too, so ViewSync does not repair
// it: the link must start a new epoch. While a snapshot is awaited, events are skipped (the snapshot is taken after
// them) and the old view stays, unless it has more blocks than there can be. A suspended ViewSync skips snapshots too
// and leaves the slot to another writer, but still checks the numbers.
//
// With checkpoints it keeps the worker's resumable blocks in the same way, with a digest of their own.
//
// Not thread-safe. The index outlives it; the destructor removes the slot's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/index/prefix_index.h"

namespace roost::router {

// The blocks of one worker behind which a request can go on, where that is not any (wire::Hello::checkpoints): a set
// beside its part of the index, which holds all its blocks and stays prefix-closed.
//
//   held        ■■■■■■■■■■■■■■■■■■■■■       the index
//   resumable        ▲         ▲            a match of this prompt is cut to the last one
//
// Not thread-safe. O(1) expected per hash; about 40 bytes for each.
class ResumableBlocks {
 public:
  void Add(std::span<const BlockHash> hashes);
  // Ignores those that are none.
  void Drop(std::span<const BlockHash> hashes);
  void Clear();

  // How many of the first `most` blocks of `hashes` a hit covers, at most. O(most).
  [[nodiscard]] std::uint32_t LastBefore(std::span<const BlockHash> hashes, std::uint32_t most) const;

  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] BlockHash digest() const { return digest_; }  // xor

 private:
  std::unordered_set<BlockHash, BlockHashHasher> blocks_;
  BlockHash digest_;
};

class ViewSync {
 public:
  struct Link {
    std::uint64_t epoch = 0;
    std::uint32_t block_count = 0;  // of the worker's pool
    bool checkpoints = false;       // see wire::Hello
  };
  ViewSync(PrefixIndex& index, WorkerSlot slot, Link link);
  ~ViewSync();
  ViewSync(const ViewSync&) = delete;
  ViewSync& operator=(const ViewSync&) = delete;

  enum class [[nodiscard]] Outcome{
      kApplied,
      kDuplicate,     // the message came before: nothing was changed, and the caller must ignore the rest of it too
      kLinkBroken,    // a gap, or another epoch: the link must start again
      kWantSnapshot,  // applied, but the view is now known to be wrong
  };
  Outcome Apply(const wire::Step& step);
  Outcome Apply(const wire::Snapshot& chunk);

  // Suspend empties the view and leaves it to another writer, until Await. Await empties it and waits for a snapshot.
  void Suspend() { Begin(Phase::kSuspended); }
  void Await() { Begin(Phase::kAwaiting); }

  [[nodiscard]] bool in_sync() const { return phase_ == Phase::kInSync; }
  // True if a snapshot is awaited and none of its chunks has come.
  [[nodiscard]] bool awaiting() const { return phase_ == Phase::kAwaiting; }
  // Empty without checkpoints.
  [[nodiscard]] const ResumableBlocks& resumable() const { return resumable_; }
  // Blocks reported so far, for metrics; without those on disk.
  [[nodiscard]] std::uint64_t stored_block_count() const { return stored_block_count_; }
  [[nodiscard]] std::uint64_t removed_block_count() const { return removed_block_count_; }

 private:
  enum class Phase { kSuspended, kAwaiting, kReceiving, kInSync };

  void Begin(Phase phase);
  void Empty();
  Outcome TakeSequence(std::uint64_t epoch, std::uint64_t sequence);
  void Apply(const wire::CacheEvent& event);
  void Store(const wire::StoredRun& run);
  void StoreOnDisk(const wire::StoredRun& run) { index_.Store(disk_, run.first_position, run.hashes); }
  // Begins to await a snapshot; returns kWantSnapshot.
  Outcome LoseTrack();
  // False: the worker's events contradict each other.
  [[nodiscard]] bool IsPossible() const;

  PrefixIndex& index_;
  const WorkerSlot slot_;
  const WorkerSlot disk_;
  const Link link_;
  ResumableBlocks resumable_;
  Phase phase_ = Phase::kAwaiting;
  std::uint64_t next_sequence_ = 1;
  std::uint32_t next_chunk_ = 0;  // while receiving
  std::uint64_t stored_block_count_ = 0;
  std::uint64_t removed_block_count_ = 0;
};

}  // namespace roost::router

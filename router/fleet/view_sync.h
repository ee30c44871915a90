// Keeps one worker's part of the index equal to what the worker holds, over one epoch of its link:
//
//               chunk 0, not last              last chunk
//   awaiting ──────────────────────► receiving ──────────► in sync
//      ▲  └────────────── chunk 0, last ───────────────────►  │
//      └───── digest or count differs, chunk missing, over the pool: the router asks for a snapshot
//
// Snapshots and steps share one sequence of numbers. A gap means that tokens are lost too, so it is not repaired here:
// the link must start a new epoch. While awaiting a snapshot, events are skipped (the snapshot is taken after them) and
// the old view stays. A suspended ViewSync skips snapshots too and leaves the slot to another writer, but still checks
// the numbers.
//
// Not thread-safe. The index outlives it; the slot's blocks are removed when it is destroyed.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "router/index/prefix_index.h"

namespace roost::router {

class ViewSync {
 public:
  struct Link {
    std::uint64_t epoch = 0;
    std::uint32_t block_count = 0;  // of the worker's pool: it can not hold more
  };
  ViewSync(PrefixIndex& index, WorkerSlot slot, Link link);
  ~ViewSync();
  ViewSync(const ViewSync&) = delete;
  ViewSync& operator=(const ViewSync&) = delete;

  enum class [[nodiscard]] Outcome{
      kApplied,
      kDuplicate,     // it came before: nothing was changed, and the rest of the message is old too
      kLinkBroken,    // a gap, or another epoch: start again
      kWantSnapshot,  // applied, but the view is known to be wrong now
  };
  Outcome Apply(const wire::Step& step);
  Outcome Apply(const wire::Snapshot& chunk);

  // Empties the view and leaves it to another writer, until the next call of one of the two; or empties it and awaits a
  // snapshot.
  void Suspend() { Begin(Phase::kSuspended); }
  void Await() { Begin(Phase::kAwaiting); }

  [[nodiscard]] bool in_sync() const { return phase_ == Phase::kInSync; }
  // A snapshot is due, and no chunk of it has come.
  [[nodiscard]] bool awaiting() const { return phase_ == Phase::kAwaiting; }
  // Blocks reported so far, for metrics.
  [[nodiscard]] std::uint64_t stored_block_count() const { return stored_block_count_; }
  [[nodiscard]] std::uint64_t removed_block_count() const { return removed_block_count_; }

 private:
  enum class Phase { kSuspended, kAwaiting, kReceiving, kInSync };

  void Begin(Phase phase);
  Outcome TakeSequence(std::uint64_t epoch, std::uint64_t sequence);
  void Apply(const wire::CacheEvent& event);
  void Store(const wire::StoredRun& run);
  // Returns kWantSnapshot and sets the phase for it.
  Outcome LoseTrack();
  [[nodiscard]] bool FitsPool() const;

  PrefixIndex& index_;
  const WorkerSlot slot_;
  const Link link_;
  Phase phase_ = Phase::kAwaiting;
  std::uint64_t next_sequence_ = 1;
  std::uint32_t next_chunk_ = 0;  // while receiving
  std::uint64_t stored_block_count_ = 0;
  std::uint64_t removed_block_count_ = 0;
};

}  // namespace roost::router

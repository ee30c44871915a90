// The router's belief about the blocks of one worker, during one epoch of its link: the worker's part of the index,
// what updates it (WorkerMode), and when to ask for a snapshot.
//
//   exact       ViewSync, from the worker's events
//   predicted   RoutingHistory, from the requests that the worker computed for this router
//   blind       nothing; the part is empty
//
// A worker whose prompts no router reads is predicted too, from the pieces of their texts (text_pieces.h).
//
// In every mode ViewSync checks the sequence numbers of the worker's messages: a gap means that tokens were lost.
//
// Not thread-safe. The index outlives the view. The view removes its blocks from the index when it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/worker_mode.h"
#include "router/fleet/workers/routing_history.h"
#include "router/fleet/workers/view_sync.h"
#include "router/index/prefix_index.h"

namespace roost::router {

class CacheView {
 public:
  CacheView(PrefixIndex& index, WorkerSlot slot, const wire::Hello& hello, ModeOptions options, Instant now);

  // kWantSnapshot means: ask for a snapshot now.
  ViewSync::Outcome Apply(const wire::Step& step, Instant now);
  ViewSync::Outcome Apply(const wire::Snapshot& chunk, Instant now);

  // The worker says whether it knows its cache.
  [[nodiscard]] std::optional<ModeTracker::Change> OnLoad(const wire::Load& load, Instant now);

  // The worker has computed the KV of all of `chain`, front to back. Has an effect only in predicted mode; O(chain).
  void OnComputed(std::span<const BlockHash> chain, Instant now);

  // Forgets what the worker probably holds, in predicted mode.
  void ForgetPredictions();
  // The same of what was not used after `at`, because a request did not find what was; see RoutingHistory.
  void ForgetUnusedSince(Instant at);
  // When a block was last used, as far as predictions know.
  [[nodiscard]] std::optional<Instant> UsedAt(BlockHash block) const;

  // See ModeTracker. After a change the view is empty.
  [[nodiscard]] std::optional<ModeTracker::Change> OnOutcome(const PromisedTokens& outcome, Instant now);
  [[nodiscard]] std::optional<ModeTracker::Change> Tick(Instant now);

  // True when a snapshot is awaited and the caller should ask for it (again) now; then it counts as asked for.
  [[nodiscard]] bool TakeSnapshotDue(Instant now);

  [[nodiscard]] WorkerMode mode() const { return tracker_.mode(); }
  // True if the view is exact and complete.
  [[nodiscard]] bool in_sync() const { return sync_.in_sync(); }
  [[nodiscard]] const ViewSync& sync() const { return sync_; }
  // The blocks behind which a hit may end; null: behind any. While it is predicted, that is not known.
  [[nodiscard]] const ResumableBlocks* resumable() const {
    return checkpoints_ && mode() == WorkerMode::kExact ? &sync_.resumable() : nullptr;
  }

 private:
  std::optional<ModeTracker::Change> Follow(std::optional<ModeTracker::Change> change, Instant now);
  // The blocks, or pieces of text, that a worker with so many blocks can hold.
  [[nodiscard]] std::size_t PredictedCount(std::uint32_t block_count) const;

  PrefixIndex& index_;
  const WorkerSlot slot_;
  const bool sends_events_;  // of the hello
  const bool checkpoints_;   // the same
  const bool is_read_;       // a router reads its prompts
  const std::uint32_t block_tokens_;
  ViewSync sync_;
  ModeTracker tracker_;
  std::optional<RoutingHistory> history_;  // in predicted mode
  Instant snapshot_due_;                   // while one is awaited
};

}  // namespace roost::router

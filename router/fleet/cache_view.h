// What one worker is thought to hold, over one epoch of its link: its part of the index, who writes it (WorkerMode),
// and when a snapshot has to be asked for.
//
//   exact       ViewSync, from the worker's events
//   predicted   RoutingHistory, from the requests that it computed for this router
//   blind       nobody; the part is empty
//
// Whatever the mode, ViewSync checks the numbers of the worker's messages: a gap means that tokens are lost.
//
// Not thread-safe. The index outlives it; the slot's blocks are forgotten when it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "router/fleet/routing_history.h"
#include "router/fleet/view_sync.h"
#include "router/fleet/worker_mode.h"
#include "router/index/prefix_index.h"

namespace roost::router {

class CacheView {
 public:
  CacheView(PrefixIndex& index, WorkerSlot slot, const wire::Hello& hello, ModeOptions options, Instant now);

  // kWantSnapshot: ask now.
  ViewSync::Outcome Apply(const wire::Step& step, Instant now);
  ViewSync::Outcome Apply(const wire::Snapshot& chunk, Instant now);

  // The worker has the KV of all of `chain`, front to back. Matters in predicted mode only: O(chain) there.
  void OnComputed(std::span<const BlockHash> chain, Instant now);

  // See ModeTracker. After a change the view is empty.
  [[nodiscard]] std::optional<ModeTracker::Change> OnOutcome(const PromisedTokens& outcome, Instant now);
  [[nodiscard]] std::optional<ModeTracker::Change> Tick(Instant now);

  // True when a snapshot is awaited and it is time to ask (again); then it counts as asked for.
  [[nodiscard]] bool TakeSnapshotDue(Instant now);

  [[nodiscard]] WorkerMode mode() const { return tracker_.mode(); }
  // Exact, and nothing was lost so far.
  [[nodiscard]] bool in_sync() const { return sync_.in_sync(); }
  [[nodiscard]] const ViewSync& sync() const { return sync_; }

 private:
  std::optional<ModeTracker::Change> Follow(std::optional<ModeTracker::Change> change, Instant now);

  PrefixIndex& index_;
  const WorkerSlot slot_;
  ViewSync sync_;
  ModeTracker tracker_;
  std::optional<RoutingHistory> history_;  // in predicted mode
  Instant snapshot_due_;                   // while one is awaited
};

}  // namespace roost::router

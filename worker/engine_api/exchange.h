// The values that the link thread and the engine thread exchange, in two bounded queues.
//
//   link thread ── EngineCommand ──► engine thread ── EngineOutput ──► link thread
//
// Both queues are ordered, so a snapshot and the step reports around it are consistent without a lock:
//
//   report 1 ─ report 2 ─ report 3 ─ snapshot ─ report 4 …    the snapshot holds the events of 1 to 3 and none of 4
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "worker/engine_api/engine_order.h"
#include "worker/engine_api/step_report.h"

namespace roost::worker {

struct SubmitCommand {
  LinkId link;
  wire::Generate request;
  std::optional<Instant> received = {};  // empty: the time at which the engine takes it
};
struct CancelCommand {
  RequestKey key;
};
struct CancelLinkCommand {
  LinkId link;
};
// Answered once, with an EngineSnapshot that is never lost. Takes O(blocks) on the engine's thread.
struct SnapshotCommand {};

// The effect of an order belongs to the worker; the link that asked only gets the answer. A pin and an unpin take
// O(their blocks) on the engine's thread, WantPrefixes takes O(blocks). An eviction is answered when it is complete,
// some steps later; at once when it is refused.
struct OrderCommand {
  LinkId link;
  EngineOrder order;
  std::optional<HoldReceipt> receipt = {};  // of a Hold, from the host that has asked for its blocks
};

// A part of a request that a router passes on unread. Only to the host of an engine whose Hello names routes.
struct ForwardPart {
  RequestKey key;
  std::variant<wire::Forward, wire::ForwardBody, wire::ForwardCredit> what;
  Instant received{};
};

// Something that the engine waits for is done. Wakes the engine's thread.
struct NudgeCommand {};

using EngineCommand = std::variant<SubmitCommand, CancelCommand, CancelLinkCommand, SnapshotCommand, OrderCommand,
                                   ForwardPart, NudgeCommand>;

// The ready blocks after the last reported step, parents before children.
struct EngineSnapshot {
  std::vector<wire::StoredRun> runs;
  std::vector<BlockHash> resumable = {};        // of their blocks; see wire::CacheEvent
  std::vector<wire::StoredRun> disk_runs = {};  // the blocks on disk, likewise
};

// Reports between the previous output and the next one did not fit the queue: every link has missed something.
struct OutputLost {};

// The standing of the engine. An engine of this process is always there and knows its cache. Another program may be
// away, and events of its cache may have been lost. Sent when it changes.
struct EngineStanding {
  std::string absence = {};                // the reason why it takes no requests now; empty: it takes them
  bool knows_cache = true;                 // false: the reports' events and blocks are only a part of its cache
  std::vector<std::string> adapters = {};  // that it serves; see wire::Hello
  bool checkpoints = false;                // see wire::Hello

  bool operator==(const EngineStanding&) const = default;
};

// A part of the answer to what was passed on, without its epoch.
struct LinkForwarded {
  LinkId link;
  wire::Forwarded message;
};

// Bytes of blocks on their way from and to other workers: see wire::Load.
struct TravellingBytes {
  std::uint64_t arriving = 0;
  std::uint64_t leaving = 0;
};

// An EngineAnswer comes after the report that shows the order's effect. It is dropped when there is no space; the
// router waits for it only for a limited time.
using EngineOutput = std::variant<StepReport, EngineSnapshot, OutputLost, EngineAnswer, EngineStanding, LinkForwarded>;

}  // namespace roost::worker

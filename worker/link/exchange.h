// The values that the link thread and the engine thread exchange, in two bounded queues.
//
//   link thread ── EngineCommand ──► engine thread ── EngineOutput ──► link thread
//
// Both are ordered, so what a snapshot holds and what the step reports around it tell fit together without a lock:
//
//   report 1 ─ report 2 ─ report 3 ─ snapshot ─ report 4 …    the snapshot holds the events of 1 to 3 and none of 4
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "worker/engine/engine.h"

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
// Answered once, with an EngineSnapshot that is never lost. Costs the engine's thread O(blocks).
struct SnapshotCommand {};

// Pins belong to the worker. The link that asked only gets the answer, if it wants one.
struct PinCommand {
  LinkId link;
  wire::Pin pin;
};
struct UnpinCommand {
  LinkId link;
  wire::Unpin unpin;
};
// Answered when it is complete, some steps later; at once when it is refused.
struct EvictCommand {
  LinkId link;
  wire::Evict evict;
};
// Costs the engine's thread O(blocks).
struct WantPrefixesCommand {
  LinkId link;
  wire::WantPrefixes want;
};

// Something is done that the engine waits for: it looks.
struct NudgeCommand {};

using EngineCommand = std::variant<SubmitCommand, CancelCommand, CancelLinkCommand, SnapshotCommand, PinCommand,
                                   UnpinCommand, EvictCommand, WantPrefixesCommand, NudgeCommand>;

// The ready blocks after the step reported before it, parents before children.
struct EngineSnapshot {
  std::vector<wire::StoredRun> runs;
};

// Reports between the last output and the next did not fit the queue: every link has missed something.
struct OutputLost {};

// The answer to a pin, an unpin, an eviction or a question from this link. It comes after the report that shows the
// effect of the order. It is dropped when there is no room; the router waits for it only a bounded time.
struct EngineAnswer {
  LinkId link;
  std::variant<wire::PinAnswer, wire::Prefixes, wire::EvictAnswer> answer;
};

using EngineOutput = std::variant<StepReport, EngineSnapshot, OutputLost, EngineAnswer>;

}  // namespace roost::worker

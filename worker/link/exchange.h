// What crosses between the link thread and the engine thread: values, in two bounded queues.
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
  std::optional<Instant> received = {};  // nothing: when the engine takes it in
};
struct CancelCommand {
  RequestKey key;
};
struct CancelLinkCommand {
  LinkId link;
};
// Answered once, with an EngineSnapshot that is never lost. Costs the engine's thread O(blocks).
struct SnapshotCommand {};

// Pins are the worker's: which link asked is of no account.
struct PinCommand {
  wire::Pin pin;
};
struct UnpinCommand {
  wire::Unpin unpin;
};

using EngineCommand =
    std::variant<SubmitCommand, CancelCommand, CancelLinkCommand, SnapshotCommand, PinCommand, UnpinCommand>;

// The ready blocks after the step reported before it, parents before children.
struct EngineSnapshot {
  std::vector<wire::StoredRun> runs;
};

// Reports between the output before and the one after did not fit the queue: every link has missed something.
struct OutputLost {};

using EngineOutput = std::variant<StepReport, EngineSnapshot, OutputLost>;

}  // namespace roost::worker

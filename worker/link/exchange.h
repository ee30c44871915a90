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

// Pins are the worker's: the link that asked gets the answer, if it wants one, and nothing else.
struct PinCommand {
  LinkId link;
  wire::Pin pin;
};
struct UnpinCommand {
  LinkId link;
  wire::Unpin unpin;
};
// Costs the engine's thread O(blocks).
struct WantPrefixesCommand {
  LinkId link;
  wire::WantPrefixes want;
};

// Something is done that the engine waits for: it looks.
struct NudgeCommand {};

using EngineCommand = std::variant<SubmitCommand, CancelCommand, CancelLinkCommand, SnapshotCommand, PinCommand,
                                   UnpinCommand, WantPrefixesCommand, NudgeCommand>;

// The ready blocks after the step reported before it, parents before children.
struct EngineSnapshot {
  std::vector<wire::StoredRun> runs;
};

// Reports between the output before and the one after did not fit the queue: every link has missed something.
struct OutputLost {};

// To a pin, an unpin or a question that came over this link. After the report that shows what the order did. Dropped
// when there is no room for it: who asked waits for a bounded time.
struct EngineAnswer {
  LinkId link;
  std::variant<wire::PinAnswer, wire::Prefixes> answer;
};

using EngineOutput = std::variant<StepReport, EngineSnapshot, OutputLost, EngineAnswer>;

}  // namespace roost::worker

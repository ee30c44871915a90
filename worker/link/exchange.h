// What crosses between the link thread and the engine thread: values, in two bounded queues.
//
//   link thread ── EngineCommand ──► engine thread ── EngineOutput ──► link thread
//
// Both are ordered, so what a snapshot holds and what the step reports around it tell fit together without a lock.
#pragma once

#include <variant>
#include <vector>

#include "common/wire/messages.h"
#include "worker/engine/engine.h"

namespace roost::worker {

struct SubmitCommand {
  LinkId link;
  wire::Generate request;
};
struct CancelCommand {
  RequestKey key;
};
struct CancelLinkCommand {
  LinkId link;
};
struct SnapshotCommand {
  LinkId link;
};

// Pins are the worker's: which link asked is of no account.
struct PinCommand {
  wire::Pin pin;
};
struct UnpinCommand {
  wire::Unpin unpin;
};

using EngineCommand =
    std::variant<SubmitCommand, CancelCommand, CancelLinkCommand, SnapshotCommand, PinCommand, UnpinCommand>;

// The ready blocks after the step reported before it.
struct LinkSnapshot {
  LinkId link;
  std::vector<wire::StoredRun> runs;
};

// Reports between the output before and the one after did not fit the queue: every link has missed something.
struct OutputLost {};

using EngineOutput = std::variant<StepReport, LinkSnapshot, OutputLost>;

}  // namespace roost::worker

// The messages between router and worker, as plain values. They are made from schema/roost.capnp, the manual of the
// protocol; codec.h converts between them and bytes. All of them are copyable, comparable data; the codec bounds their
// vectors and texts.
//
//   worker → router   WorkerMessage
//   router → worker   RouterMessage
//
// A worker's life on a link: Hello until Welcome arrives, then a Snapshot and Steps. `epoch` names one life of the
// link: with a new epoch both sides forget the blocks and requests of the earlier one. Snapshots and Steps share one
// sequence per epoch, 1, 2, 3 …. Two ways to repair:
//
//   gap in the sequence: tokens may be lost   → WantHello      a new epoch begins; requests are lost
//   digest disagrees: only events are lost    → WantSnapshot   Snapshot in the running epoch; requests go on
//
// In the other direction Generates must not be lost: each Ping carries a digest of those before it. A worker that
// received others begins a new epoch.
//
// Between Welcome and the last chunk of the first Snapshot, Steps carry tokens and load but no cache events; a receiver
// compares digests only after that chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"
#include "common/base/rng.h"
#include "schema/messages.h"

namespace roost::wire {

// Does this reason end the request, even if other choices are still running?
[[nodiscard]] constexpr bool EndsAllChoices(FinishReason reason) {
  return reason == FinishReason::kCancelled || reason == FinishReason::kError;
}

[[nodiscard]] constexpr std::size_t IndexOf(RefusalCause cause) { return static_cast<std::size_t>(cause); }

// For digests, because the xor of consecutive ids would cancel out.
[[nodiscard]] constexpr std::uint64_t MixedId(RequestId id) { return Mix64(id.value()); }

}  // namespace roost::wire

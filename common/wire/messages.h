// The messages between router and worker, as plain values: worker_messages.h and router_messages.h.
// schema/roost.capnp is the manual of the bytes; codec.h converts between them. Everything here is copyable, comparable
// data; the codec bounds the vectors (see WireLimits).
//
//   worker → router   Hello, Step, Snapshot, Tokenizer, Bye, PinAnswer, Prefixes, EvictAnswer, Adapters
//   router → worker   Welcome, Refused, Generate, Cancel, Pin, Unpin, WantHello, WantSnapshot, WantTokenizer,
//                     WantPrefixes, Evict, Ping, Cordon
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

#include <variant>

#include "common/wire/router_messages.h"
#include "common/wire/worker_messages.h"

namespace roost::wire {

using WorkerMessage = std::variant<Hello, Step, Snapshot, Tokenizer, Bye, PinAnswer, Prefixes, EvictAnswer, Adapters>;
using RouterMessage = std::variant<Welcome, Refused, Generate, Cancel, WantHello, WantSnapshot, WantTokenizer, Ping,
                                   Pin, Unpin, WantPrefixes, Evict, Cordon>;

}  // namespace roost::wire

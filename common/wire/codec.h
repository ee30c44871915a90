// Messages ↔ bytes (schema/roost.capnp). The only code that uses Cap'n Proto, and the place that checks what peers
// send: sizes, list lengths, enumerators, numbers, text. Decoded messages are safe to use. What is done for each field
// is made from the schema (message_bytes.h); the rules between fields are in check.h.
//
// Threads: pure functions. Errors: kDataLoss with the field's name for a message that is malformed or over a limit; the
// caller counts it and drops the link. An unknown kind of message is not an error: Decode returns nothing, and the
// caller counts it and goes on.
// Cost: one copy of the message each way, and one of the frame when it is not aligned to 8 bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"

namespace roost::wire {

using Bytes = std::vector<std::byte>;

// A message over a limit of WireLimits stops the program.
[[nodiscard]] Bytes Encode(const WorkerMessage& message);
[[nodiscard]] Bytes Encode(const RouterMessage& message);
[[nodiscard]] Bytes Encode(const PeerMessage& message);

// Nothing if the message is well-formed, but of a kind that this version does not know.
[[nodiscard]] Result<std::optional<WorkerMessage>> DecodeWorkerMessage(std::span<const std::byte> frame);
[[nodiscard]] Result<std::optional<RouterMessage>> DecodeRouterMessage(std::span<const std::byte> frame);
[[nodiscard]] Result<std::optional<PeerMessage>> DecodePeerMessage(std::span<const std::byte> frame);

}  // namespace roost::wire

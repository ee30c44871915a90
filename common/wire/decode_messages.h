// Reads and checks whole messages, for Decode. Errors name the field. May throw kj::Exception, as any read of a
// malformed message; Decode catches it. Read each pointer once: each read counts against the traversal limit.
#pragma once

#include <optional>
#include <utility>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// Nothing for a message of a kind that this version does not know.
[[nodiscard]] Result<std::optional<WorkerMessage>> ReadMessage(schema::WorkerMessage::Reader in);
[[nodiscard]] Result<std::optional<RouterMessage>> ReadMessage(schema::RouterMessage::Reader in);

// Turns the Result<T> of one message into what ReadMessage returns.
template <typename Message, typename T>
[[nodiscard]] Result<std::optional<Message>> Known(Result<T> read) {
  if (!read.ok()) return std::move(read).error();
  return std::optional<Message>(std::move(read).value());
}

}  // namespace roost::wire

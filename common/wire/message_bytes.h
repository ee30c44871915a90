// The parts of the codec that are made from the schema: whole messages in Cap'n Proto's readers and builders.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// Reads and checks a message; errors name the field. Nothing for a message of a kind that this version does not know.
// May throw kj::Exception, as any read of a malformed message.
[[nodiscard]] Result<std::optional<WorkerMessage>> ReadMessage(schema::WorkerMessage::Reader in);
[[nodiscard]] Result<std::optional<RouterMessage>> ReadMessage(schema::RouterMessage::Reader in);

// A list or text over its limit stops the program.
void WriteMessage(const WorkerMessage& in, schema::WorkerMessage::Builder out);
void WriteMessage(const RouterMessage& in, schema::RouterMessage::Builder out);

}  // namespace roost::wire

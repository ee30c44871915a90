// Writes whole messages, for Encode. A message with a value over its limit stops the program.
#pragma once

#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

void FillMessage(const WorkerMessage& message, schema::WorkerMessage::Builder out);  // encode_worker_messages.cc
void FillMessage(const RouterMessage& message, schema::RouterMessage::Builder out);  // encode_router_messages.cc

}  // namespace roost::wire

// Reads and checks, for Decode, what routers and workers say about prefixes: pins, evictions, questions and answers.
// Errors name the field. May throw kj::Exception, as any read of a malformed message; Decode catches it.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

[[nodiscard]] Result<Pin> ReadPin(schema::Pin::Reader in);
[[nodiscard]] Result<Unpin> ReadUnpin(schema::Unpin::Reader in);
[[nodiscard]] PinAnswer ReadPinAnswer(schema::PinAnswer::Reader in);
// Nothing for an order of a kind that this version does not know.
[[nodiscard]] Result<std::optional<Evict>> ReadEvict(schema::Evict::Reader in);
[[nodiscard]] EvictAnswer ReadEvictAnswer(schema::EvictAnswer::Reader in);
[[nodiscard]] Result<WantPrefixes> ReadWantPrefixes(schema::WantPrefixes::Reader in);
[[nodiscard]] Result<Prefixes> ReadPrefixes(schema::Prefixes::Reader in);

}  // namespace roost::wire

// Reads and checks, for Decode, what workers report about a request's tokens, and which reports requests ask for.
// Errors name the field. May throw kj::Exception, as any read of a malformed message; Decode catches it.
#pragma once

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

[[nodiscard]] Result<TokenEvent> ReadTokenEvent(schema::TokenEvent::Reader in);
// Reads Generate's output_logprobs and prompt_logprobs.
[[nodiscard]] Result<void> ReadWantedLogprobs(schema::Generate::Reader in, Generate& generate);

}  // namespace roost::wire

// Reads and checks a peer's sampling parameters, for DecodeRouterMessage and DecodeWorkerMessage. Errors name the
// field. May throw kj::Exception, as any read of a malformed message; Decode catches it.
#pragma once

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

[[nodiscard]] Result<SamplingDefaults> ReadSamplingDefaults(schema::Hello::Reader in);
[[nodiscard]] Result<Sampling> ReadSampling(schema::Generate::Reader in);

}  // namespace roost::wire

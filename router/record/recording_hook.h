// Passes each finished request to a Recorder. So neither the fleet nor the HTTP side depends on recording.
#pragma once

#include "common/base/clock.h"
#include "router/fleet/dispatcher.h"
#include "router/record/recorder.h"

namespace roost::router {

// Records each accepted request when it ends, with the first choice as its answer. Arrivals are counted from now on.
// `clock` outlives the hook; `recorder` also outlives every request that was submitted with it.
[[nodiscard]] SubmitHook RecordTo(Recorder& recorder, const Clock& clock);

}  // namespace roost::router

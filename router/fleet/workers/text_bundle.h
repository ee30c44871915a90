// Reads the tokenizer and the chat template that a worker brings for its model.
#pragma once

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "router/fleet/workers/worker_registry.h"

namespace roost::router {

// Takes up to a second for a large vocabulary. Errors name the file and the place in it. Thread-safe.
[[nodiscard]] Result<TextBundle> ReadTextBundle(const wire::Tokenizer& bundle);

}  // namespace roost::router

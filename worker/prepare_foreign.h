// Prepares a worker that stands beside another program's engine.
#pragma once

#include "common/base/result.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// As PrepareWorker, for options.engine other than kOwnEngine: waits until the engine answers, at most for
// options.engine_start_seconds.
[[nodiscard]] Result<WorkerSetup> PrepareForeign(const WorkerOptions& options);

}  // namespace roost::worker

// From flags to a worker that is ready to start: loads the model and checks everything that comes with it.
#pragma once

#include "common/base/result.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// `options` must be complete. An error names the file or the flag; see ExitCodeOf for its code. Reading the weights
// takes most of the time.
[[nodiscard]] Result<WorkerSetup> PrepareWorker(const WorkerOptions& options);

}  // namespace roost::worker

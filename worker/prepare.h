// From flags to a worker that is ready to start: loads the model and checks that what it brings along can be used.
#pragma once

#include "common/base/result.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// `options` must be complete. An error names the file or the flag; see ExitCodeOf for its code. Takes as long as
// reading the weights.
[[nodiscard]] Result<WorkerSetup> PrepareWorker(const WorkerOptions& options);

}  // namespace roost::worker

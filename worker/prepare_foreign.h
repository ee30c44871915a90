// Prepares a worker that stands beside another program's engine.
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// The time that another engine has to answer when its worker starts: it may have to load a large model. Kubernetes'
// probe in deploy/ gives the pod a minute more.
inline constexpr Duration kEngineStart = std::chrono::minutes(29);

// As PrepareWorker, for options.engine other than kOwnEngine: waits until the engine answers, at most for kEngineStart.
[[nodiscard]] Result<WorkerSetup> PrepareForeign(const WorkerOptions& options);

}  // namespace roost::worker

// A model, loaded as roost-worker loads it, with what a router would know about it.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "router/fleet/dispatcher.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::roostctl {

struct OfflineModel {
  worker::WorkerSetup setup;
  std::shared_ptr<const router::ServedModel> served;
};

// `options` must be complete. Errors are those of PrepareWorker. Takes as long as reading the weights.
[[nodiscard]] Result<OfflineModel> LoadOfflineModel(const worker::WorkerOptions& options);

}  // namespace roost::roostctl

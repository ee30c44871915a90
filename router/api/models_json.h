// Bodies about models, workers and queues. Pure functions from values to JSON text.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "router/fleet/dispatcher.h"

namespace roost::router {

[[nodiscard]] std::string ModelBody(const ServedModel& model);
[[nodiscard]] std::string ModelListBody(std::span<const std::shared_ptr<const ServedModel>> models);
// {"workers":[…]}, which `roostctl status` shows.
[[nodiscard]] std::string WorkersBody(std::span<const WorkerStatus> workers);

// {"queues":[…]}: the requests that wait at the router.
[[nodiscard]] std::string QueuesBody(std::span<const QueueStatus> queues);

}  // namespace roost::router

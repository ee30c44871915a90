// The fleet's counters, gauges and histograms in a Prometheus registry.
#pragma once

#include <memory>

#include "router/fleet/fleet_metrics.h"

namespace roost::metrics {
class Registry;
}

namespace roost::router {

// Counts under the names of common/metrics/catalog.h. `registry` outlives it.
[[nodiscard]] std::unique_ptr<FleetMetrics> MakeFleetMetrics(metrics::Registry& registry);

}  // namespace roost::router

// The fleet's counters, gauges and histograms in a Prometheus registry.
#pragma once

#include <memory>
#include <string_view>

#include "router/fleet/fleet_metrics.h"

namespace roost::metrics {
class Registry;
}

namespace roost::router {

// Counts under the names of common/metrics/catalog.h. `registry` outlives it. All series of the fleet are there from
// the start, those of a model and of a worker since it connected. `policy` is the name of the fleet's.
[[nodiscard]] std::unique_ptr<FleetMetrics> MakeFleetMetrics(metrics::Registry& registry, std::string_view policy);

}  // namespace roost::router

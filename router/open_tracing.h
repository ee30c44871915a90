// What --otlp-endpoint asks for: the router's spans on their way to a collector.
#pragma once

#include "common/base/result.h"
#include "common/metrics/registry.h"
#include "router/api/request_trace.h"
#include "router/options.h"

namespace roost::router {

// Without an endpoint nothing is traced. `registry` outlives the spans. The error names the flag.
[[nodiscard]] Result<Tracing> OpenTracing(const RouterOptions& options, metrics::Registry& registry);

}  // namespace roost::router

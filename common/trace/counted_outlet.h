// The outlet that a daemon's --otlp-endpoint opens: sends spans to a collector, and counts them.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/metrics/catalog.h"
#include "common/metrics/registry.h"
#include "common/trace/otlp_json.h"
#include "common/trace/span.h"

namespace roost::trace {

// Closed without an endpoint. `outcomes` is a counter with the label outcome; its series are there from the start.
// `registry` outlives the outlet's sink. Errors as SpanExporter::Start's.
[[nodiscard]] Result<SpanOutlet> OpenCountedOutlet(const std::string& endpoint, Resource resource,
                                                   metrics::Registry& registry, const metrics::Metric& outcomes);

}  // namespace roost::trace

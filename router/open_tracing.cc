#include "router/open_tracing.h"

#include <prometheus/counter.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/random_seed.h"
#include "common/config/config.h"
#include "common/metrics/catalog.h"
#include "common/trace/span_exporter.h"

namespace roost::router {

Result<Tracing> OpenTracing(const RouterOptions& options, metrics::Registry& registry) {
  for (const trace::SpanOutcome outcome : trace::kSpanOutcomes) {
    registry.Counter(metrics::kRouterTraceSpans, {std::string(NameOf(outcome))});
  }
  if (options.otlp_endpoint.empty()) return Tracing();
  trace::SpanExporterOptions exporter;
  exporter.endpoint = options.otlp_endpoint;
  exporter.resource = {.service_name = "roost-router",
                       .service_version = std::string(Version()),
                       .service_instance_id = options.http_address};
  exporter.on_outcome = [&registry](trace::SpanOutcome outcome, std::size_t count) {
    registry.Counter(metrics::kRouterTraceSpans, {std::string(NameOf(outcome))}).Increment(static_cast<double>(count));
  };
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<trace::SpanSink> spans, trace::SpanExporter::Start(std::move(exporter)));
  return Tracing{.spans = std::move(spans),
                 .sample_ratio = options.otlp_sample_ratio,
                 .random = trace::RandomNumbers(RandomSeed())};
}

}  // namespace roost::router

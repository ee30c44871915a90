#include "common/trace/counted_outlet.h"

#include <prometheus/counter.h>

#include <array>
#include <cstddef>
#include <utility>

#include "common/base/random_seed.h"
#include "common/trace/span_exporter.h"

namespace roost::trace {

Result<SpanOutlet> OpenCountedOutlet(const std::string& endpoint, Resource resource, metrics::Registry& registry,
                                     const metrics::Metric& outcomes) {
  std::array<prometheus::Counter*, kSpanOutcomes.size()> counters{};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    counters[i] = &registry.Counter(outcomes, {std::string(NameOf(kSpanOutcomes[i]))});
  }
  if (endpoint.empty()) return SpanOutlet();
  SpanExporterOptions options;
  options.endpoint = endpoint;
  options.resource = std::move(resource);
  options.on_outcome = [counters](SpanOutcome outcome, std::size_t count) {
    counters.at(static_cast<std::size_t>(outcome))->Increment(static_cast<double>(count));
  };
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<SpanSink> sink, SpanExporter::Start(std::move(options)));
  return SpanOutlet{.sink = std::move(sink), .random = RandomNumbers(RandomSeed())};
}

}  // namespace roost::trace

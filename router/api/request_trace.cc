#include "router/api/request_trace.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/trace_context.h"

namespace roost::router {
namespace {

bool Draw(double ratio, std::uint64_t random) {
  return std::ldexp(static_cast<double>(random >> 11U), -53) < ratio;  // 53 bits: as many as a double has
}

}  // namespace

trace::Span RequestTrace::Own(std::string name, Instant begin, Instant end) const {
  return {.trace_id = trace_id,
          .span_id = span_id,
          .parent_span_id = parent_span_id,
          .name = std::move(name),
          .kind = trace::SpanKind::kServer,
          .begin = begin,
          .end = end};
}

trace::Span RequestTrace::Child(std::string name, Instant begin, Instant end, const trace::SpanOutlet& spans) const {
  return {.trace_id = trace_id,
          .span_id = SpanIdOf(spans.random()),
          .parent_span_id = span_id,
          .name = std::move(name),
          .begin = begin,
          .end = end};
}

RequestTrace BeginTrace(const Tracing& tracing, std::string_view client) {
  RequestTrace trace;
  std::optional<TraceContext> context = ParseTraceParent(client);
  if (context) trace.trace_parent = client;
  if (!tracing.spans.is_open()) return trace;
  const auto& random = tracing.spans.random;
  if (!context)
    context = {.trace_id = SpanIdOf(random()) + SpanIdOf(random()), .is_sampled = Draw(tracing.sample_ratio, random())};
  if (!context->is_sampled) return trace;
  trace.trace_id = context->trace_id;
  trace.parent_span_id = std::exchange(context->parent_id, SpanIdOf(random()));
  trace.span_id = context->parent_id;
  trace.trace_parent = MakeTraceParent(*context);
  return trace;
}

}  // namespace roost::router

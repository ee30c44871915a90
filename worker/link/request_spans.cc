#include "worker/link/request_spans.h"

#include <algorithm>
#include <utility>

#include "common/base/trace_context.h"

namespace roost::worker {

std::unique_ptr<RequestSpans::Traced> RequestSpans::Begin(const wire::Generate& request, Instant received) const {
  if (!options_.outlet.is_open()) return nullptr;
  std::optional<TraceContext> context = ParseTraceParent(request.trace_parent);
  if (!context || !context->is_sampled) return nullptr;
  return std::make_unique<Traced>(Traced{.trace_id = std::move(context->trace_id),
                                         .parent_span_id = std::move(context->parent_id),
                                         .received = received,
                                         .prompt_tokens = static_cast<std::uint32_t>(request.prompt.size())});
}

void RequestSpans::Note(Traced& traced, const wire::TokenEvent& event, Instant now) {
  if (event.cached_token_count) traced.cached_tokens = *event.cached_token_count;
  if (event.queue_wait_seconds) traced.queue_seconds = event.queue_wait_seconds;
  if (!event.tokens.empty() && !traced.first_token) traced.first_token = now;
  traced.output_tokens += event.tokens.size();
}

void RequestSpans::AddPart(const Traced& traced, const std::string& parent, std::string name, Instant begin,
                           Instant end) const {
  options_.outlet.sink->Add({.trace_id = traced.trace_id,
                             .span_id = SpanIdOf(options_.outlet.random()),
                             .parent_span_id = parent,
                             .name = std::move(name),
                             .begin = begin,
                             .end = std::max(begin, end)});
}

void RequestSpans::End(const Traced& traced, wire::FinishReason reason, Instant now) const {
  trace::Span span{.trace_id = traced.trace_id,
                   .span_id = SpanIdOf(options_.outlet.random()),
                   .parent_span_id = traced.parent_span_id,
                   .name = "generate",
                   .kind = trace::SpanKind::kServer,
                   .begin = traced.received,
                   .end = now};
  span.attributes = {{"roost.worker", options_.worker_id},
                     {"gen_ai.usage.input_tokens", std::int64_t{traced.prompt_tokens}},
                     {"gen_ai.usage.output_tokens", static_cast<std::int64_t>(traced.output_tokens)},
                     {"roost.cached_tokens", std::int64_t{traced.cached_tokens}}};
  if (reason == wire::FinishReason::kError) span.status = trace::SpanStatus::kError;
  const std::string own = span.span_id;
  options_.outlet.sink->Add(std::move(span));
  if (!traced.queue_seconds) return AddPart(traced, own, "queue", traced.received, now);
  const Instant started = std::min(now, traced.received + FromSeconds(*traced.queue_seconds));
  AddPart(traced, own, "queue", traced.received, started);
  AddPart(traced, own, "prefill", started, traced.first_token.value_or(now));
  if (traced.first_token) AddPart(traced, own, "decode", *traced.first_token, now);
}

}  // namespace roost::worker

// The place of a request in a trace: where it comes from, what the router's span of it is called, and what workers are
// told (www.w3.org/TR/trace-context).
//
//   client's span ─► the router's: from the handler's start to the end of the answer
//                      ├─► "route": from the submission, or a lost worker, to the dispatch
//                      └─► the worker's (worker/link/request_spans.h)
#pragma once

#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/trace/span.h"

namespace roost::router {

struct Tracing {
  trace::SpanOutlet spans = {};  // closed: a client's context goes to the worker as it is
  double sample_ratio = 1;       // of the requests whose client says nothing about it
};

struct RequestTrace {
  std::string trace_parent;  // for the worker; may be empty
  // The ids of the router's span; empty unless it is recorded.
  std::string trace_id;
  std::string span_id;
  std::string parent_span_id;

  [[nodiscard]] bool is_recorded() const { return !span_id.empty(); }
  // A span of this trace: the request's own, or with a name of its own a child of it.
  [[nodiscard]] trace::Span Own(std::string name, Instant begin, Instant end) const;
  [[nodiscard]] trace::Span Child(std::string name, Instant begin, Instant end, const trace::SpanOutlet& spans) const;
};

// `client`: its traceparent header, or anything else. A client that sends one decides whether the request is traced.
[[nodiscard]] RequestTrace BeginTrace(const Tracing& tracing, std::string_view client);

}  // namespace roost::router

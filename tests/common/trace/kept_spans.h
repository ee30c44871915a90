// Keeps the spans that it gets, for tests to look at.
#pragma once

#include <utility>
#include <vector>

#include "common/trace/span.h"

namespace roost::trace {

// Not thread-safe.
class KeptSpans final : public SpanSink {
 public:
  void Add(Span span) override { spans.push_back(std::move(span)); }
  std::vector<Span> spans;
};

}  // namespace roost::trace

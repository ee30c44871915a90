// A span: what one program did for a request and when, as OpenTelemetry has it
// (opentelemetry.io/docs/specs/otel/trace). The names of attributes are those of its semantic conventions for
// generative AI where there is one, else begin with "roost.".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/clock.h"

namespace roost::trace {

struct Attribute {
  std::string_view name;  // of a literal
  std::variant<std::string, std::int64_t, double, bool> value;
};

enum class SpanKind { kInternal, kServer };
enum class SpanStatus { kUnset, kError };

struct Span {
  std::string trace_id = {};        // 32 hexadecimal digits, lower case
  std::string span_id = {};         // 16
  std::string parent_span_id = {};  // 16, or empty: the first of its trace
  std::string name = {};
  SpanKind kind = SpanKind::kInternal;
  Instant begin{};
  Instant end{};
  std::vector<Attribute> attributes = {};
  SpanStatus status = SpanStatus::kUnset;
  std::string status_message = {};
};

// Takes spans that have ended. Any thread; never waits.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void Add(Span span) = 0;
};

// The sink for spans, and the source of their ids; both are empty where nothing is traced.
struct SpanOutlet {
  std::shared_ptr<SpanSink> sink = {};
  std::function<std::uint64_t()> random = {};  // any thread may call it

  [[nodiscard]] bool is_open() const { return sink != nullptr; }
};

}  // namespace roost::trace

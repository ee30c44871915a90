// Spans as OTLP/HTTP has them in JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): ids in hexadecimal,
// 64-bit numbers as strings.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/trace/span.h"

namespace roost::trace {

// The program that made the spans.
struct Resource {
  std::string service_name = {};         // service.name
  std::string service_version = {};      // service.version
  std::string service_instance_id = {};  // service.instance.id; may be empty
};

// An instant and the same moment in nanoseconds since 1970.
struct WallTime {
  Instant instant;
  std::int64_t unix_nanoseconds;
};

// The body of a POST to /v1/traces.
[[nodiscard]] std::string OtlpBody(const Resource& resource, std::span<const Span> spans, const WallTime& now);

}  // namespace roost::trace

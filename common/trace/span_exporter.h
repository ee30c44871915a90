// Sends spans to an OpenTelemetry collector over OTLP/HTTP, as JSON. Telemetry never slows a request down: spans wait
// in a bounded queue, a thread of its own sends them, and what does not fit or can not be sent is dropped and counted.
//
//   Add ─► queue (kMaxQueued) ─► the thread: kMaxBatch spans or kBatchTime ─► POST ENDPOINT/v1/traces
//                                  429, 502, 503, 504, no answer: again after a pause, kMaxAttempts times
//
// Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/metrics/catalog.h"
#include "common/metrics/registry.h"
#include "common/trace/span.h"

namespace roost::trace {

// Spans as OTLP/HTTP has them in JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): ids in hexadecimal,
// 64-bit numbers as strings.

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

// The fate of a span.
enum class SpanOutcome { kSent, kQueueFull, kRefused, kUnreachable };
inline constexpr std::array kSpanOutcomes{SpanOutcome::kSent, SpanOutcome::kQueueFull, SpanOutcome::kRefused,
                                          SpanOutcome::kUnreachable};
[[nodiscard]] std::string_view NameOf(SpanOutcome outcome);

// A source of random numbers for ids; any thread may call it.
[[nodiscard]] std::function<std::uint64_t()> RandomNumbers(std::uint64_t seed);

struct SpanExporterOptions {
  std::string endpoint = {};  // "http://HOST:PORT" or https; "/v1/traces" is added where the URL has no path
  Resource resource = {};
  std::chrono::milliseconds batch_time{1'000};    // that a span waits at most for others
  std::chrono::milliseconds request_time{5'000};  // for the collector's answer
  std::chrono::milliseconds pause{500};           // before the second attempt; each further pause is twice as long
  // For metrics. Called on any thread, with the number of spans.
  std::function<void(SpanOutcome, std::size_t)> on_outcome = [](SpanOutcome, std::size_t) {};
};

class SpanExporter final : public SpanSink {
 public:
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxBatch = 512;
  static constexpr int kMaxAttempts = 4;

  // kInvalidArgument when the endpoint is no http or https URL. The collector need not run yet.
  [[nodiscard]] static Result<std::unique_ptr<SpanExporter>> Start(SpanExporterOptions options);

  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;
  // Tries once to send what waits, for at most request_time.
  ~SpanExporter() override;

  void Add(Span span) override;

 private:
  struct Impl;
  explicit SpanExporter(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// The outlet that a daemon's --otlp-endpoint opens: sends spans to a collector, and counts them.

// Closed without an endpoint. `outcomes` is a counter with the label outcome; its series are there from the start.
// `registry` outlives the outlet's sink. Errors as SpanExporter::Start's.
[[nodiscard]] Result<SpanOutlet> OpenCountedOutlet(const std::string& endpoint, Resource resource,
                                                   metrics::Registry& registry, const metrics::Metric& outcomes);

}  // namespace roost::trace

#include "common/trace/span_exporter.h"

#include <fmt/format.h>
#include <prometheus/counter.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/json_writer.h"
#include "common/base/log.h"
#include "common/base/random_seed.h"
#include "common/base/rng.h"
#include "common/base/thread_name.h"
#include "common/http/curl_call.h"

namespace roost::trace {
namespace {

struct WriteValue {
  JsonWriter& json;
  void operator()(const std::string& text) const { json.Key("stringValue").String(text); }
  void operator()(std::int64_t number) const { json.Key("intValue").String(fmt::to_string(number)); }
  void operator()(double number) const { json.Key("doubleValue").Number(number); }
  void operator()(bool flag) const { json.Key("boolValue").Bool(flag); }
};

void Write(const Attribute& attribute, JsonWriter& json) {
  json.BeginObject().Key("key").String(attribute.name).Key("value").BeginObject();
  std::visit(WriteValue{json}, attribute.value);
  json.EndObject().EndObject();
}

int NumberOf(SpanKind kind) { return kind == SpanKind::kServer ? 2 : 1; }

std::string UnixNanoseconds(Instant instant, const WallTime& now) {
  return fmt::to_string(now.unix_nanoseconds + (instant - now.instant).count());
}

void Write(const Span& span, const WallTime& now, JsonWriter& json) {
  json.BeginObject().Key("traceId").String(span.trace_id).Key("spanId").String(span.span_id);
  if (!span.parent_span_id.empty()) json.Key("parentSpanId").String(span.parent_span_id);
  json.Key("name").String(span.name).Key("kind").Number(NumberOf(span.kind));
  json.Key("startTimeUnixNano").String(UnixNanoseconds(span.begin, now));
  json.Key("endTimeUnixNano").String(UnixNanoseconds(span.end, now));
  json.Key("attributes").BeginArray();
  for (const Attribute& attribute : span.attributes) Write(attribute, json);
  json.EndArray().Key("status").BeginObject();
  if (span.status == SpanStatus::kError) json.Key("code").Number(2).Key("message").String(span.status_message);
  json.EndObject().EndObject();
}

void Write(const Resource& resource, JsonWriter& json) {
  json.BeginObject().Key("attributes").BeginArray();
  Write(Attribute{"service.name", resource.service_name}, json);
  Write(Attribute{"service.version", resource.service_version}, json);
  if (!resource.service_instance_id.empty()) {
    Write(Attribute{"service.instance.id", resource.service_instance_id}, json);
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string OtlpBody(const Resource& resource, std::span<const Span> spans, const WallTime& now) {
  JsonWriter json;
  json.BeginObject().Key("resourceSpans").BeginArray().BeginObject().Key("resource");
  Write(resource, json);
  json.Key("scopeSpans").BeginArray().BeginObject().Key("scope").Raw(R"({"name":"roost"})");
  json.Key("spans").BeginArray();
  for (const Span& span : spans) Write(span, now, json);
  json.EndArray().EndObject().EndArray().EndObject().EndArray().EndObject();
  return json.Take();
}

namespace {

// The URL to post to.
Result<std::string> UrlOf(const std::string& endpoint) {
  const std::size_t scheme = endpoint.find("://");
  const std::string_view name = std::string_view(endpoint).substr(0, scheme);
  if (scheme == std::string::npos || (name != "http" && name != "https") || endpoint.size() == scheme + 3) {
    return InvalidArgument("otlp-endpoint", "'{}' is no URL such as http://127.0.0.1:4318", endpoint);
  }
  const std::size_t path = endpoint.find('/', scheme + 3);
  if (path == std::string::npos) return endpoint + "/v1/traces";
  return path + 1 == endpoint.size() ? endpoint + "v1/traces" : endpoint;
}

WallTime WallTimeNow() {
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  return {SteadyClock().Now(), std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count()};
}

enum class Answer { kTaken, kRefused, kAgain };

Answer AnswerOf(long status) {
  if (status >= 200 && status < 300) return Answer::kTaken;
  return status == 429 || status == 502 || status == 503 || status == 504 ? Answer::kAgain : Answer::kRefused;
}

}  // namespace

std::string_view NameOf(SpanOutcome outcome) {
  switch (outcome) {
    case SpanOutcome::kSent: return "sent";
    case SpanOutcome::kQueueFull: return "queue_full";
    case SpanOutcome::kRefused: return "refused";
    case SpanOutcome::kUnreachable: return "unreachable";
  }
  return "unreachable";
}

// SplitMix64 (Steele, Lea, Flood 2014): a counter, mixed.
std::function<std::uint64_t()> RandomNumbers(std::uint64_t seed) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  return [state = std::make_shared<std::atomic<std::uint64_t>>(seed)] { return Mix64(state->fetch_add(kStep)); };
}

struct SpanExporter::Impl {
  explicit Impl(SpanExporterOptions chosen, std::string target) : options(std::move(chosen)), url(std::move(target)) {
    thread = std::thread([this] { Run(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void Run();
  std::vector<Span> NextBatch();
  SpanOutcome Send(const std::vector<Span>& batch);
  Answer Post(const std::string& body);
  bool DropsAllAtTheEnd();
  // False once the exporter stops.
  bool Pause(std::chrono::milliseconds time);
  void Tell(const std::string& problem);

  const SpanExporterOptions options;
  const std::string url;
  CurlCall call;          // the thread's
  bool reachable = true;  // the thread's: a change is logged

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Span> queue;  // guarded by mutex
  bool stopping = false;   // guarded by mutex
  std::thread thread;
};

void SpanExporter::Impl::Run() {
  NameThisThread("spans");
  for (;;) {
    try {
      const std::vector<Span> batch = NextBatch();
      if (batch.empty()) return;
      const SpanOutcome outcome = Send(batch);
      options.on_outcome(outcome, batch.size());
      if (outcome == SpanOutcome::kUnreachable && DropsAllAtTheEnd()) return;
    } catch (const std::exception& thrown) {
      LogError("spans are lost", {{"error", thrown.what()}});
    }
  }
}

// Empty when the exporter stops and nothing waits.
std::vector<Span> SpanExporter::Impl::NextBatch() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stopping || !queue.empty(); });
  changed.wait_for(lock, options.batch_time, [this] { return stopping || queue.size() >= kMaxBatch; });
  const std::size_t count = std::min(queue.size(), kMaxBatch);
  const auto end = queue.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Span> batch(std::make_move_iterator(queue.begin()), std::make_move_iterator(end));
  queue.erase(queue.begin(), end);
  return batch;
}

SpanOutcome SpanExporter::Impl::Send(const std::vector<Span>& batch) {
  const std::string body = OtlpBody(options.resource, batch, WallTimeNow());
  std::chrono::milliseconds pause = options.pause;
  for (int attempt = 1; attempt <= kMaxAttempts; ++attempt, pause *= 2) {
    const Answer answer = Post(body);
    if (answer != Answer::kAgain) return answer == Answer::kTaken ? SpanOutcome::kSent : SpanOutcome::kRefused;
    if (attempt == kMaxAttempts || !Pause(pause)) break;
  }
  return SpanOutcome::kUnreachable;
}

// When the exporter stops, a collector that does not answer is not waited for again.
bool SpanExporter::Impl::DropsAllAtTheEnd() {
  const std::lock_guard lock(mutex);
  if (!stopping) return false;
  options.on_outcome(SpanOutcome::kUnreachable, queue.size());
  queue.clear();
  return true;
}

Answer SpanExporter::Impl::Post(const std::string& body) {
  call.Begin({.url = url, .body = &body, .time_limit = options.request_time});
  if (const CURLcode code = call.Perform(); code != CURLE_OK) {
    Tell(curl_easy_strerror(code));
    return Answer::kAgain;
  }
  const long status = call.status();
  const Answer answer = AnswerOf(status);
  Tell(answer == Answer::kTaken ? std::string() : "it answers with status " + std::to_string(status));
  return answer;
}

bool SpanExporter::Impl::Pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  return !changed.wait_for(lock, time, [this] { return stopping; });
}

void SpanExporter::Impl::Tell(const std::string& problem) {
  if (reachable == problem.empty()) return;
  reachable = problem.empty();
  if (reachable) return LogInfo("spans reach the collector again", {{"endpoint", url}});
  LogWarning("spans do not reach the collector", {{"endpoint", url}, {"reason", problem}});
}

SpanExporter::SpanExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SpanExporter::~SpanExporter() = default;

Result<std::unique_ptr<SpanExporter>> SpanExporter::Start(SpanExporterOptions options) {
  ROOST_ASSIGN_OR_RETURN(std::string url, UrlOf(options.endpoint));
  return std::unique_ptr<SpanExporter>(new SpanExporter(std::make_unique<Impl>(std::move(options), std::move(url))));
}

void SpanExporter::Add(Span span) {
  bool is_full = false;
  bool wakes = false;
  {
    const std::lock_guard lock(impl_->mutex);
    is_full = impl_->queue.size() >= kMaxQueued;
    if (!is_full) impl_->queue.push_back(std::move(span));
    wakes = impl_->queue.size() == 1 || impl_->queue.size() == kMaxBatch;
  }
  if (is_full) return impl_->options.on_outcome(SpanOutcome::kQueueFull, 1);
  if (wakes) impl_->changed.notify_all();
}

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

#include "common/trace/otlp_json.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>

#include "common/base/json_writer.h"

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

}  // namespace roost::trace

#include "common/trace/span_exporter.h"

#include <gtest/gtest.h>

namespace roost::trace {
namespace {

TEST(OtlpJsonTest, WritesWhatTheProtocolAsksFor) {
  const Instant now{std::chrono::seconds(100)};
  const Span span{.trace_id = "0af7651916cd43dd8448eb211c80319c",
                  .span_id = "b7ad6b7169203331",
                  .parent_span_id = "00f067aa0ba902b7",
                  .name = "chat m",
                  .kind = SpanKind::kServer,
                  .begin = now - std::chrono::milliseconds(1500),
                  .end = now - std::chrono::seconds(1),
                  .attributes = {{"t", std::string("x\"y")}, {"i", std::int64_t{7}}, {"d", 0.5}, {"b", true}},
                  .status = SpanStatus::kError,
                  .status_message = "no"};
  const Span root{.trace_id = span.trace_id, .span_id = "1", .name = "r", .begin = now, .end = now};
  EXPECT_EQ(
      OtlpBody({.service_name = "s", .service_version = "1"}, std::vector{span, root},
               {now, 1'700'000'000'000'000'000}),
      R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}},)"
      R"({"key":"service.version","value":{"stringValue":"1"}}]},"scopeSpans":[{"scope":{"name":"roost"},"spans":[)"
      R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","parentSpanId":"00f067aa0ba902b7",)"
      R"("name":"chat m","kind":2,"startTimeUnixNano":"1699999998500000000","endTimeUnixNano":"1699999999000000000",)"
      R"("attributes":[{"key":"t","value":{"stringValue":"x\"y"}},{"key":"i","value":{"intValue":"7"}},)"
      R"({"key":"d","value":{"doubleValue":0.5}},{"key":"b","value":{"boolValue":true}}],)"
      R"("status":{"code":2,"message":"no"}},{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"1","name":"r",)"
      R"("kind":1,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000000000","attributes":[],)"
      R"("status":{}}]}]}]})");
}

}  // namespace
}  // namespace roost::trace

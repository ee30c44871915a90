#include "router/api/answers/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/trace_context.h"
#include "common/trace/span_exporter.h"
#include "tests/common/trace/kept_spans.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::AnyOf;
using ::testing::SizeIs;

constexpr std::string_view kClient = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr std::string_view kUntraced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

class RequestTraceTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> Ask(std::string trace_parent) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.headers = {{"Content-Type", "application/json"}, {"traceparent", std::move(trace_parent)}};
    request.body = std::string(R"({"model":"bytes","messages":[{"role":"user","content":"hi"}]})");
    request.request_id = "req-1";
    auto responder = std::make_shared<FakeResponder>();
    traced_.Handle(Listener::kApi, std::move(request), responder);
    return responder;
  }
  const trace::Span& Named(std::string_view name) {
    const auto found = std::find_if(kept_->spans.begin(), kept_->spans.end(),
                                    [name](const trace::Span& span) { return span.name == name; });
    EXPECT_NE(found, kept_->spans.end()) << name;
    return *found;
  }

  const std::shared_ptr<trace::KeptSpans> kept_ = std::make_shared<trace::KeptSpans>();
  const Tracing tracing_{.spans = {.sink = kept_, .random = trace::RandomNumbers(1)}};
  Api traced_{dispatcher_,
              observer_,
              clock_,
              text_,
              {.version = "1",
               .tracing = tracing_,
               .metrics_text = [] { return std::string(); },
               .unix_seconds_now = [] { return std::int64_t{1}; }}};
};

TEST_F(RequestTraceTest, ARequestsSpanContinuesTheClientsAndTheWorkersContinuesIt) {
  const auto responder = Ask(std::string(kClient));
  const std::optional<TraceContext> sent = ParseTraceParent(dispatcher_.specs.back().generate.trace_parent);
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_NE(sent->parent_id, "b7ad6b7169203331");
  clock_.Advance(std::chrono::milliseconds(3));
  GenerationObserver& observer = *dispatcher_.observers.back();
  Decision decision{};
  decision.matched_tokens = 16;
  observer.OnDispatched({.worker_id = "w", .decision = decision});
  clock_.Advance(std::chrono::milliseconds(20));
  observer.OnTokens({.tokens = {'a', 'b'}, .cached_token_count = 16});
  observer.OnEnd({wire::FinishReason::kStop, {}});
  ASSERT_THAT(kept_->spans, SizeIs(2));
  const trace::Span& own = Named("chat bytes");
  EXPECT_EQ(own.trace_id, sent->trace_id);
  EXPECT_EQ(own.parent_span_id, "b7ad6b7169203331");
  EXPECT_EQ(own.span_id, sent->parent_id);
  EXPECT_EQ(own.end - own.begin, std::chrono::milliseconds(23));
  const trace::Span& route = Named("route");
  EXPECT_EQ(route.parent_span_id, own.span_id);
  EXPECT_EQ(route.end - route.begin, std::chrono::milliseconds(3));
  const auto cached = std::find_if(own.attributes.begin(), own.attributes.end(),
                                   [](const auto& attribute) { return attribute.name == "roost.cached_tokens"; });
  EXPECT_EQ(std::get<std::int64_t>(cached->value), 16);
}

TEST_F(RequestTraceTest, AClientThatDoesNotTraceIsNotTraced) {
  Ask(std::string(kUntraced));
  EXPECT_EQ(dispatcher_.specs.back().generate.trace_parent, kUntraced);
  dispatcher_.observers.back()->OnEnd({wire::FinishReason::kError, Error{}});
  EXPECT_THAT(kept_->spans, SizeIs(0));
}

TEST_F(RequestTraceTest, WithoutATraceOfTheClientsANewOneBegins) {
  Ask("rubbish");
  EXPECT_TRUE(IsTraceParent(dispatcher_.specs.back().generate.trace_parent));
  dispatcher_.observers.back()->OnEnd({wire::FinishReason::kError, Error{}});
  ASSERT_THAT(kept_->spans, SizeIs(1));
  EXPECT_EQ(kept_->spans.front().parent_span_id, "");
  EXPECT_EQ(kept_->spans.front().status, trace::SpanStatus::kError);
}

TEST(BeginTraceTest, TheRatioIsTheShareOfTracedRequests) {
  const Tracing tracing{.spans = {.sink = std::make_shared<trace::KeptSpans>(), .random = trace::RandomNumbers(2)},
                        .sample_ratio = 0.25};
  int traced = 0;
  for (int i = 0; i < 10'000; ++i) traced += BeginTrace(tracing, "").is_recorded() ? 1 : 0;
  EXPECT_NEAR(traced, 2500, 200);
  EXPECT_TRUE(BeginTrace(tracing, kClient).is_recorded());
}

TEST(BeginTraceTest, WithoutACollectorTheClientsContextPassesThrough) {
  EXPECT_EQ(BeginTrace({}, kClient).trace_parent, kClient);
  EXPECT_FALSE(BeginTrace({}, kClient).is_recorded());
  EXPECT_EQ(BeginTrace({}, "rubbish").trace_parent, "");
}

}  // namespace
}  // namespace roost::router

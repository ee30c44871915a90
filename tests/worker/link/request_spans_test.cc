#include "worker/link/request_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/common/trace/kept_spans.h"

namespace roost::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

class RequestSpansTest : public ::testing::Test {
 protected:
  static wire::Generate Request(std::string trace_parent) {
    wire::Generate request;
    request.prompt = {1, 2, 3};
    request.trace_parent = std::move(trace_parent);
    return request;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const trace::Span& span : kept_->spans) names.push_back(span.name);
    return names;
  }

  const std::string sampled_ = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::shared_ptr<trace::KeptSpans> kept_ = std::make_shared<trace::KeptSpans>();
  std::uint64_t next_ = 0;
  const RequestSpans spans_{{.outlet = {.sink = kept_, .random = [this] { return ++next_; }}, .worker_id = "w"}};
  const Instant begin_{milliseconds(1000)};
};

TEST_F(RequestSpansTest, ARequestHasItsWaitItsPrefillAndItsDecode) {
  const auto traced = spans_.Begin(Request(sampled_), begin_);
  ASSERT_NE(traced, nullptr);
  wire::TokenEvent first;
  first.cached_token_count = 2;
  first.queue_wait_seconds = 0.010;
  first.tokens = {7};
  RequestSpans::Note(*traced, first, begin_ + milliseconds(30));
  wire::TokenEvent later;
  later.tokens = {8};
  RequestSpans::Note(*traced, later, begin_ + milliseconds(50));
  spans_.End(*traced, wire::FinishReason::kStop, begin_ + milliseconds(50));
  ASSERT_THAT(Names(), ElementsAre("generate", "queue", "prefill", "decode"));
  const trace::Span& generate = kept_->spans[0];
  EXPECT_EQ(generate.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(generate.parent_span_id, "b7ad6b7169203331");
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(kept_->spans[i].parent_span_id, generate.span_id);
  EXPECT_EQ(kept_->spans[1].end, begin_ + milliseconds(10));
  EXPECT_EQ(kept_->spans[2].end, begin_ + milliseconds(30));
  EXPECT_EQ(kept_->spans[3].end, begin_ + milliseconds(50));
}

TEST_F(RequestSpansTest, ARequestThatNeverRanOnlyWaited) {
  const auto traced = spans_.Begin(Request(sampled_), begin_);
  spans_.End(*traced, wire::FinishReason::kError, begin_ + milliseconds(5));
  EXPECT_THAT(Names(), ElementsAre("generate", "queue"));
  EXPECT_EQ(kept_->spans[0].status, trace::SpanStatus::kError);
}

TEST_F(RequestSpansTest, WhatIsNotTracedHasNoSpans) {
  EXPECT_EQ(spans_.Begin(Request(""), begin_), nullptr);
  EXPECT_EQ(spans_.Begin(Request("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), begin_), nullptr);
  EXPECT_EQ(RequestSpans({}).Begin(Request(sampled_), begin_), nullptr);
}

}  // namespace
}  // namespace roost::worker

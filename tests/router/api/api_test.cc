// Answers, streams and failures over a dispatcher that the test drives.
#include "router/api/routes/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using wire::FinishReason;

constexpr std::string_view kAsk = R"({"model":"bytes","messages":[{"role":"user","content":"hi"}])";

std::string AskWith(std::string_view members) { return fmt::format("{},{}}}", kAsk, members); }
std::string AskPlain() { return fmt::format("{}}}", kAsk); }

// ---- whole answers ----

TEST_F(ApiTest, AnswersAChatWhole) {
  const auto responder = Chat(AskPlain());
  dispatcher_.Dispatch(8);
  dispatcher_.Produce(Bytes("Hel"), 12);
  EXPECT_FALSE(responder->done());
  dispatcher_.Produce(Bytes("lo"));
  dispatcher_.Produce({kImEnd});
  dispatcher_.Finish(FinishReason::kStop);
  ASSERT_TRUE(responder->response.has_value());
  const std::string& body = responder->response->body;
  const std::string id = At(body, "/id");
  EXPECT_EQ(id.substr(0, 10), "\"chatcmpl-");
  EXPECT_EQ(body, R"({"id":)" + id +
                      R"(,"object":"chat.completion","created":1800000000,"model":"bytes",)"
                      R"("system_fingerprint":"fp_0123456789ab","choices":[{"index":0,"message":{"role":"assistant",)"
                      R"("content":"Hello","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":)"
                      R"({"prompt_tokens":21,"completion_tokens":6,"total_tokens":27,)"
                      R"("prompt_tokens_details":{"cached_tokens":12,"cache_write_tokens":0},)"
                      R"("completion_tokens_details":{"reasoning_tokens":0}}})");
  EXPECT_EQ(HeaderOf(responder->response->headers, "x-roost-worker"), "w1");
  EXPECT_EQ(HeaderOf(responder->response->headers, "x-roost-cached-tokens"), "12");
  EXPECT_THAT(observer_.answers, ElementsAre("chat_completions 200"));
  EXPECT_THAT(observer_.ends, ElementsAre("stop prompt=21 completion=6 cached=12"));
  EXPECT_EQ(observer_.active, 0);
}

TEST_F(ApiTest, AnswersACompletionWhole) {
  const auto responder = Complete(R"({"model":"bytes","prompt":"hi","max_tokens":2})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("ab"), 0);
  dispatcher_.Finish(FinishReason::kLength);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/id").substr(0, 6), "\"cmpl-");
  EXPECT_EQ(At(body, "/object"), "\"text_completion\"");
  EXPECT_EQ(At(body, "/choices"), R"([{"index":0,"text":"ab","logprobs":null,"finish_reason":"length"}])");
  EXPECT_EQ(At(body, "/usage"), R"({"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
                                R"("prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},)"
                                R"("completion_tokens_details":{"reasoning_tokens":0}})");
}

TEST_F(ApiTest, IdsDiffer) {
  const auto first = Chat(AskPlain());
  dispatcher_.Finish(FinishReason::kStop);
  const auto second = Chat(AskPlain());
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_NE(At(first->response->body, "/id"), At(second->response->body, "/id"));
}

// ---- streams ----

TEST_F(ApiTest, StreamsAChat) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  EXPECT_FALSE(responder->done());
  dispatcher_.Dispatch(8);
  EXPECT_EQ(responder->frames, "");  // a failure could still set its own status
  EXPECT_EQ(HeaderOf(responder->stream_headers, "x-roost-worker"), "w1");
  EXPECT_EQ(HeaderOf(responder->stream_headers, "x-roost-cached-tokens"), "8");
  dispatcher_.Produce(Bytes("He"), 8);
  dispatcher_.Produce(Bytes("y"));
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_TRUE(responder->ended);
  const std::vector<std::string> events = Events(*responder);
  ASSERT_EQ(events.size(), 5U);
  const std::string head = R"({"id":)" + At(events[0], "/id") +
                           R"(,"object":"chat.completion.chunk","created":1800000000,"model":"bytes",)"
                           R"("system_fingerprint":"fp_0123456789ab","choices":[{"index":0,"delta":)";
  const std::string tail = R"(,"logprobs":null,"finish_reason":null}]})";
  EXPECT_EQ(events[0], head + R"({"role":"assistant","content":""})" + tail);
  EXPECT_EQ(events[1], head + R"({"content":"He"})" + tail);
  EXPECT_EQ(events[2], head + R"({"content":"y"})" + tail);
  EXPECT_EQ(events[3], head + R"({},"logprobs":null,"finish_reason":"length"}]})");
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(ApiTest, StreamsACompletion) {
  const auto responder = Complete(R"({"model":"bytes","prompt":"hi","stream":true})");
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("ab"), 0);
  dispatcher_.Finish(FinishReason::kStop);
  const std::vector<std::string> events = Events(*responder);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(At(events[0], "/object"), "\"text_completion\"");
  EXPECT_EQ(At(events[0], "/choices"), R"([{"index":0,"text":"ab","logprobs":null,"finish_reason":null}])");
  EXPECT_EQ(At(events[1], "/choices"), R"([{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(ApiTest, UsageComesLastAndOnlyWhenAskedFor) {
  const auto responder = Chat(AskWith(R"("stream":true,"stream_options":{"include_usage":true})"));
  dispatcher_.Dispatch(4);
  dispatcher_.Produce(Bytes("abc"), 4);
  dispatcher_.Finish(FinishReason::kStop);
  const std::vector<std::string> events = Events(*responder);
  ASSERT_EQ(events.size(), 5U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(At(events[static_cast<std::size_t>(i)], "/usage"), "");
  EXPECT_EQ(At(events[3], "/choices"), "[]");
  EXPECT_EQ(At(events[3], "/usage"), R"({"prompt_tokens":21,"completion_tokens":3,"total_tokens":24,)"
                                     R"("prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},)"
                                     R"("completion_tokens_details":{"reasoning_tokens":0}})");
}

TEST_F(ApiTest, UsageComesWithEveryChunkWhenAskedFor) {
  const auto responder =
      Chat(AskWith(R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})"));
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("ab"), 0);
  dispatcher_.Produce(Bytes("c"));
  dispatcher_.Finish(FinishReason::kStop);
  const std::vector<std::string> events = Events(*responder);
  std::vector<std::string> counts;
  for (const std::string& event : events) counts.push_back(At(event, "/usage/completion_tokens"));
  EXPECT_THAT(counts, ElementsAre("0", "2", "3", "3", "3", ""));
}

// ---- text ----

TEST_F(ApiTest, HoldsBackHalfACharacter) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(0);
  const std::string text = "a\xF0\x9F\x90\x94z";  // a hen between letters
  for (const TokenId id : Bytes(text)) {
    dispatcher_.Produce({id}, 0);
    EXPECT_TRUE(IsValidUtf8(responder->frames));
    EXPECT_EQ(responder->frames.find("\xEF\xBF\xBD"), std::string::npos);
  }
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(StreamedText(*responder), text);
}

TEST_F(ApiTest, ACharacterThatNeverEndsBecomesAReplacement) {
  const auto responder = Chat(AskPlain());
  dispatcher_.Produce(Bytes("ok\xF0\x9F"), 0);
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), "\"ok\xEF\xBF\xBD\"");
}

TEST_F(ApiTest, StopStringsEndTheAnswerAcrossTokens) {
  const auto responder = Chat(AskWith(R"("stream":true,"stop":["END","zzz"])"));
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("abcE"), 0);
  dispatcher_.Produce(Bytes("N"));
  EXPECT_EQ(StreamedText(*responder), "abc");
  EXPECT_TRUE(dispatcher_.cancelled.empty());
  dispatcher_.Produce(Bytes("D and more"));
  EXPECT_TRUE(responder->ended);
  EXPECT_EQ(StreamedText(*responder), "abc");
  const std::vector<std::string> events = Events(*responder);
  EXPECT_EQ(At(events[events.size() - 2], "/choices/0/finish_reason"), "\"stop\"");
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(1)));
  const std::string frames = responder->frames;
  dispatcher_.Produce(Bytes("late"));
  dispatcher_.Finish(FinishReason::kCancelled);
  EXPECT_EQ(responder->frames, frames);
  EXPECT_THAT(observer_.ends, ElementsAre("stop prompt=21 completion=6 cached=0"));
}

TEST_F(ApiTest, WhatLooksLikeAStopComesOutInTheEnd) {
  const auto responder = Chat(AskWith(R"("stop":"END")"));
  dispatcher_.Produce(Bytes("abcEN"), 0);
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), "\"abcEN\"");
  EXPECT_EQ(At(responder->response->body, "/choices/0/finish_reason"), "\"length\"");
}

TEST_F(ApiTest, StopTokensAreNotPartOfTheText) {
  const auto responder = Chat(AskWith(R"("stop_token_ids":[33])"));  // !
  dispatcher_.Produce(Bytes("hi"), 0);
  dispatcher_.Produce(Bytes("!"));
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), "\"hi\"");
  EXPECT_EQ(At(responder->response->body, "/usage/completion_tokens"), "3");
}

// ---- failures ----

TEST_F(ApiTest, RefusalsOfTheDispatcherKeepTheirStatus) {
  dispatcher_.refusal = Error{ErrorCode::kOverloaded, "all queues are full", ""};
  for (const char* stream : {"true", "false"}) {
    const auto responder = Chat(AskWith(fmt::format(R"("stream":{})", stream)));
    ASSERT_TRUE(responder->response.has_value());
    EXPECT_EQ(responder->response->status, 429);
    EXPECT_EQ(HeaderOf(responder->response->headers, "Retry-After"), "1");
    EXPECT_EQ(Minify(responder->response->body),
              R"({"error":{"message":"all queues are full","type":"rate_limit_error","param":null,)"
              R"("code":"overloaded"}})");
  }
  dispatcher_.refusal = Error{ErrorCode::kUnavailable, "no worker", ""};
  EXPECT_EQ(Chat(AskPlain())->response->status, 503);
  EXPECT_THAT(observer_.answers, ElementsAre("chat_completions 429", "chat_completions 429", "chat_completions 503"));
  EXPECT_EQ(observer_.active, 0);
}

TEST_F(ApiTest, OverloadSaysWhenThoseThatWaitWillHaveGone) {
  dispatcher_.refusal = Error{ErrorCode::kOverloaded, "all queues are full", ""};
  dispatcher_.queues = {{.model = "another", .drain_seconds = 60}, {.model = "bytes", .drain_seconds = 7.2}};
  const auto responder = Chat(AskPlain());
  EXPECT_EQ(HeaderOf(responder->response->headers, "Retry-After"), "8");
  EXPECT_EQ(HeaderOf(responder->response->headers, "retry-after-ms"), "8000");
  dispatcher_.refusal.reset();
  const auto expired = Chat(AskPlain());  // expires while it waits
  dispatcher_.queues.back().drain_seconds = 3;
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kOverloaded, "no worker had room", ""});
  EXPECT_EQ(HeaderOf(expired->response->headers, "Retry-After"), "3");
}

TEST_F(ApiTest, FailureBeforeTheFirstTokenHasAStatus) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(0);
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""});
  ASSERT_TRUE(responder->response.has_value());
  EXPECT_EQ(responder->response->status, 503);
  EXPECT_EQ(responder->frames, "");
}

// The head was sent with a keep-alive comment while the prompt was computed: the client saw 200, and the metrics count
// it.
TEST_F(ApiTest, FailureAfterAKeepAliveCommentIsAnErrorEventOfAnAnswerThatBeganWell) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(0);
  responder->commented = true;
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""});
  EXPECT_FALSE(responder->response.has_value());
  EXPECT_EQ(Events(*responder).size(), 2U);
  EXPECT_EQ(observer_.answers.back(), "chat_completions 200");
}

TEST_F(ApiTest, FailureMidStreamIsAnErrorEvent) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("abc"), 0);
  dispatcher_.Finish(FinishReason::kError, Error{ErrorCode::kUnavailable, "the worker was lost", ""});
  EXPECT_TRUE(responder->ended);
  const std::vector<std::string> events = Events(*responder);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[2], R"({"error":{"message":"the worker was lost","type":"overloaded_error","param":null,)"
                       R"("code":"unavailable"}})");
  EXPECT_EQ(events[3], "[DONE]");
  EXPECT_THAT(observer_.ends, ElementsAre("error prompt=21 completion=3 cached=0"));
}

TEST_F(ApiTest, ARetryBeforeTheFirstTokenShowsTheSecondWorker) {
  const auto responder = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(8, "w1");
  dispatcher_.Dispatch(4, "w2");
  dispatcher_.Produce(Bytes("a"), 4);
  EXPECT_EQ(HeaderOf(responder->stream_headers, "x-roost-worker"), "w2");
  EXPECT_EQ(HeaderOf(responder->stream_headers, "x-roost-cached-tokens"), "4");
}

TEST_F(ApiTest, ClientsThatLeaveAreCancelledAtAnyPhase) {
  const auto waiting = Chat(AskWith(R"("stream":true)"));
  waiting->Close();
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(1)));
  dispatcher_.Finish(FinishReason::kCancelled);

  const auto dispatched = Chat(AskPlain());
  dispatcher_.Dispatch(0);
  dispatched->Close();
  EXPECT_THAT(dispatcher_.cancelled, ElementsAre(RequestId(1), RequestId(2)));

  const auto streaming = Chat(AskWith(R"("stream":true)"));
  dispatcher_.Dispatch(0);
  dispatcher_.Produce(Bytes("abc"), 0);
  streaming->Close();
  dispatcher_.Produce(Bytes("late"));
  EXPECT_EQ(dispatcher_.cancelled.size(), 3U);
  EXPECT_EQ(StreamedText(*streaming), "abc");

  EXPECT_THAT(observer_.answers, ElementsAre("chat_completions 499", "chat_completions 499", "chat_completions 499"));
  EXPECT_EQ(observer_.active, 0);
}

TEST_F(ApiTest, AnEndedRequestIsNotCancelled) {
  const auto responder = Chat(AskPlain());
  dispatcher_.Finish(FinishReason::kStop);
  responder->Close();
  EXPECT_TRUE(dispatcher_.cancelled.empty());
}

TEST_F(ApiTest, TellsTimesToTheObserver) {
  Chat(AskPlain());
  clock_.Advance(std::chrono::milliseconds(250));
  dispatcher_.Produce(Bytes("a"), 0);
  clock_.Advance(std::chrono::milliseconds(500));
  dispatcher_.Produce(Bytes("bc"));
  EXPECT_EQ(observer_.active, 1);
  EXPECT_THAT(observer_.first_token_seconds, ElementsAre(0.25));
  EXPECT_THAT(observer_.later_tokens, ElementsAre(std::pair(2U, 0.5)));
}

TEST_F(ApiTest, LetsGoOfEverythingAtTheEnd) {
  const std::weak_ptr<FakeResponder> weak = [&] {
    const auto responder = Chat(AskPlain());
    dispatcher_.Finish(FinishReason::kStop);
    dispatcher_.observers.clear();
    return std::weak_ptr(responder);
  }();
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace roost::router

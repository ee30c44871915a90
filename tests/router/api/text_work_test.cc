// A request between its connection and the dispatcher: its turn, its memory, a client that leaves.
#include "router/api/answers/text_memory.h"
#include "tests/router/api/api_fixture.h"
#include "tests/support/out_of_memory.h"

namespace roost::router {
namespace {

constexpr std::string_view kHello = R"({"model":"bytes","messages":[{"role":"user","content":"hello"}]})";

class TextWorkTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> ChatWithin(const std::shared_ptr<ByteBudget>& budget, std::string_view body) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.headers = {{"content-type", "application/json"}};
    request.body = HttpBody(budget);
    EXPECT_TRUE(request.body.TryAppend(body));
    return Handle(std::move(request));
  }
  static std::string Long(std::size_t size) {
    return R"({"model":"bytes","messages":[{"role":"user","content":")" + std::string(size, 'x') + R"("}]})";
  }
};

TEST_F(TextWorkTest, WaitsForItsTurnWithItsSize) {
  text_.holds = true;
  const auto answer = Chat(std::string(kHello));
  EXPECT_TRUE(dispatcher_.specs.empty());
  EXPECT_EQ(text_.sizes, std::vector<std::size_t>{kHello.size()});
  text_.DoHeld();
  EXPECT_EQ(dispatcher_.specs.size(), 1U);
}

TEST_F(TextWorkTest, HealthWaitsForNobody) {
  text_.holds = true;
  EXPECT_EQ(Ask("GET", "/health")->response->status, 200);
  EXPECT_FALSE(Ask("GET", "/v1/models")->done());
}

TEST_F(TextWorkTest, TooManyWaitingAreRefused) {
  text_.is_full = true;
  const auto answer = Chat(std::string(kHello));
  EXPECT_EQ(answer->response->status, 429);
  EXPECT_EQ(HeaderOf(answer->response->headers, "Retry-After"), "1");
}

TEST_F(TextWorkTest, AClientThatLeavesBeforeItsTurnCostsNoWork) {
  text_.holds = true;
  const auto answer = Chat(std::string(kHello));
  answer->Close();
  text_.DoHeld();
  EXPECT_TRUE(dispatcher_.specs.empty());
  EXPECT_EQ(observer_.answers, std::vector<std::string>{"chat_completions 499"});
}

TEST_F(TextWorkTest, AClientThatLeavesWhileItsRequestIsSubmittedIsCancelled) {
  text_.holds = true;
  const auto answer = Chat(std::string(kHello));
  dispatcher_.on_submit = [&] { answer->Close(); };
  text_.DoHeld();
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.cancelled, std::vector<RequestId>{RequestId(1)});
  EXPECT_EQ(observer_.active, 0);
  EXPECT_EQ(observer_.answers, std::vector<std::string>{"chat_completions 499"});
}

TEST_F(TextWorkTest, AnUnknownModelIsRefusedBeforeItsMessagesAreRead) {
  const auto answer = Chat(R"({"model":"nobody","messages":"not even a list"})");
  EXPECT_EQ(answer->response->status, 404);
}

TEST_F(TextWorkTest, AFullQueueIsToldBeforeMessagesAreRead) {
  dispatcher_.no_room = Error{ErrorCode::kOverloaded, "full", ""};
  dispatcher_.queues = {{.model = "bytes", .waiting_requests = 3, .oldest_wait_seconds = 1, .drain_seconds = 6.5}};
  const auto answer = Chat(R"({"model":"bytes","messages":"not even a list"})");
  EXPECT_EQ(answer->response->status, 429);
  EXPECT_EQ(HeaderOf(answer->response->headers, "Retry-After"), "7");
}

TEST_F(TextWorkTest, ATextOfMoreBytesThanTheContextCanHoldIsNotTokenized) {
  const std::string body = Long(20'000);
  const auto for_reading_alone = std::make_shared<ByteBudget>(ParseBytes(body.size(), 100));
  ASSERT_LT(for_reading_alone->limit(), EncodeBytes(20'000)) << "tokenizing it would be a 413";
  const auto answer = ChatWithin(for_reading_alone, body);
  EXPECT_EQ(answer->response->status, 400);
  EXPECT_EQ(At(answer->response->body, "/error/code"), "\"context_length_exceeded\"");
}

TEST_F(TextWorkTest, ARequestHoldsItsPromptsBytesUntilItEnds) {
  const auto budget = std::make_shared<ByteBudget>(std::uint64_t{1} << 30U);
  const auto answer = ChatWithin(budget, kHello);
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  const std::uint64_t of_answer = AnswerStartBytes(dispatcher_.specs[0], {});
  EXPECT_EQ(budget->used(), SpecBytes(dispatcher_.specs[0]) + of_answer);
  dispatcher_.specs.clear();
  EXPECT_EQ(budget->used(), of_answer);
  answer->Close();
  EXPECT_EQ(budget->used(), 0U);
}

TEST_F(TextWorkTest, ReadingABodyTakesWhatItNeedsFromTheBudget) {
  const std::string body = Long(20'000);
  const auto large_enough = std::make_shared<ByteBudget>(EncodeBytes(body.size()) + ParseBytes(body.size(), 100));
  EXPECT_EQ(ChatWithin(large_enough, body)->response->status, 400);  // it is longer than the context
  EXPECT_EQ(large_enough->used(), 0U);

  const auto too_small = std::make_shared<ByteBudget>(ParseBytes(body.size()) - 1);
  EXPECT_EQ(ChatWithin(too_small, body)->response->status, 413);

  ByteBudget::Guard others(large_enough);
  ASSERT_TRUE(others.TryGrow(large_enough->limit() - body.size() * 2));
  const auto answer = ChatWithin(large_enough, body);
  EXPECT_EQ(answer->response->status, 429);
  EXPECT_EQ(HeaderOf(answer->response->headers, "Retry-After"), "1");
  EXPECT_EQ(ChatWithin(large_enough, kHello)->done(), false);
}

// ---- its time ----

class DeadlineTest : public ApiTest {
 protected:
  std::shared_ptr<FakeResponder> ChatWithTimeout(std::string timeout_ms) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.headers = {{"Content-Type", "application/json"}, {"X-Request-Timeout-Ms", std::move(timeout_ms)}};
    request.body = std::string(kHello);
    return Handle(std::move(request));
  }
};

TEST_F(DeadlineTest, ARequestHasTheServersTimeUnlessItAsksForLess) {
  constexpr std::chrono::hours kServers{1};
  const auto plain = Chat(std::string(kHello));
  EXPECT_EQ(dispatcher_.specs.back().deadline, clock_.Now() + kServers);
  const auto shorter = ChatWithTimeout("1500");
  EXPECT_EQ(dispatcher_.specs.back().deadline, clock_.Now() + std::chrono::milliseconds(1500));
  const auto longer = ChatWithTimeout("18446744073709551615");
  EXPECT_EQ(dispatcher_.specs.back().deadline, clock_.Now() + kServers);
}

TEST_F(DeadlineTest, WaitingForATextThreadCounts) {
  text_.holds = true;
  const Instant came = clock_.Now();
  const auto answer = ChatWithTimeout("1500");
  clock_.Advance(std::chrono::seconds(1));
  text_.DoHeld();
  EXPECT_EQ(dispatcher_.specs.back().deadline, came + std::chrono::milliseconds(1500));
}

TEST_F(DeadlineTest, ATimeThatIsNoneIsRefusedByName) {
  for (const char* text : {"0", "-1", "1.5", "10s", "", "18446744073709551616"}) {
    const auto refused = ChatWithTimeout(text);
    EXPECT_EQ(refused->response->status, 400) << text;
    EXPECT_EQ(At(refused->response->body, "/error/param"), "\"x-request-timeout-ms\"");
  }
}

// ---- out of memory ----

TEST_F(TextWorkTest, ASubmitThatFindsNoMemoryEndsTheRequest) {
  dispatcher_.on_submit = [] { testing_support::FailAllocation(); };
  const auto answer = Chat(std::string(kHello));
  EXPECT_EQ(answer->response->status, 503);
  EXPECT_EQ(observer_.active, 0);
}

}  // namespace
}  // namespace roost::router

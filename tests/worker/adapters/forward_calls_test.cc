// Requests that are passed on unread, beside an engine that the test plays.
#include "worker/adapters/forward_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/source_dir.h"
#include "tests/worker/adapters/fake_http.h"

namespace roost::worker::adapters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::FakeHttp;

constexpr LinkId kLink{1};

class ForwardCallsTest : public ::testing::Test {
 protected:
  static RequestKey Key(std::uint64_t id) { return {kLink, RequestId(id)}; }
  static wire::Forward Embed(std::uint64_t id, std::string body) {
    wire::Forward forward;
    forward.request_id = RequestId(id);
    forward.path = "/v1/embeddings";
    forward.content_type = "application/json";
    forward.body_bytes = body.size();
    forward.body = std::move(body);
    return forward;
  }
  void Begin(wire::Forward forward) { calls_.Begin(kLink, std::move(forward), clock_.Now(), facts_); }
  CallId Only() {
    const auto open = http_.Open("/v1/embeddings");
    EXPECT_EQ(open.size(), 1U);
    return open.front().id;
  }
  void Status(CallId call, int status, std::string type = "application/json") {
    EXPECT_TRUE(calls_.OnHttp({call, HttpStatus{status, std::move(type)}}));
  }
  void Bytes(CallId call, std::string bytes) { EXPECT_TRUE(calls_.OnHttp({call, HttpBytes{std::move(bytes)}})); }
  void End(CallId call, CallEnd how = CallEnd::kComplete) {
    http_.ended.insert(call);
    EXPECT_TRUE(calls_.OnHttp({call, HttpEnd{how, "as the test wants"}}));
  }
  // All messages that are due.
  std::vector<wire::Forwarded> Take() {
    std::vector<wire::Forwarded> messages;
    while (std::optional<LinkForwarded> taken = calls_.TakeAnswer()) messages.push_back(std::move(taken->message));
    return messages;
  }

  ManualClock clock_;
  FakeHttp http_;
  EngineFacts facts_{.model = "e5", .aliases = {"embedder"}, .adapters = {"poet"}};
  ForwardCalls calls_{clock_, http_};
};

TEST_F(ForwardCallsTest, ARequestBecomesACallAndItsAnswerComesBack) {
  wire::Forward forward = Embed(7, R"({"model":"e5","input":"hi"})");
  forward.accept = "application/json";
  forward.trace_parent = "00-1-2-01";
  forward.deadline_ms = 2000;
  Begin(forward);
  const HttpCall& call = http_.sent.at(0).call;
  EXPECT_EQ(call.method, HttpMethod::kPost);
  EXPECT_EQ(call.path, "/v1/embeddings");
  EXPECT_EQ(call.body, R"({"model":"e5","input":"hi"})");
  EXPECT_EQ(call.content_type, "application/json");
  EXPECT_EQ(call.time_limit, std::chrono::seconds(2));
  EXPECT_THAT(call.headers, ElementsAre("Accept: application/json", "traceparent: 00-1-2-01"));
  EXPECT_EQ(calls_.open_count(), 1U);
  Status(Only(), 200);
  Bytes(http_.sent[0].id, R"({"data":[]})");
  End(http_.sent[0].id);
  const std::vector<wire::Forwarded> answer = Take();
  ASSERT_EQ(answer.size(), 1U) << "what comes at once is one message";
  EXPECT_EQ(answer[0].status, 200U);
  EXPECT_EQ(answer[0].content_type, "application/json");
  EXPECT_EQ(answer[0].body, R"({"data":[]})");
  EXPECT_TRUE(answer[0].last);
  EXPECT_FALSE(answer[0].error);
  EXPECT_EQ(calls_.open_count(), 0U);
}

TEST_F(ForwardCallsTest, WhatTheEngineSaysComesBackWhateverItsStatus) {
  Begin(Embed(1, "{}"));
  Status(Only(), 400, "text/plain");
  End(http_.sent[0].id);
  const auto answer = Take();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].status, 400U);
  EXPECT_EQ(answer[0].content_type, "text/plain");
  EXPECT_TRUE(answer[0].last);
}

TEST_F(ForwardCallsTest, AnAnswerIsNoLongerThanItsCredit) {
  Begin(Embed(1, "{}"));
  EXPECT_EQ(http_.sent[0].call.answer_credit, wire::kForwardCredit);
  Status(Only(), 200);
  Bytes(http_.sent[0].id, std::string(wire::kForwardCredit + 1000, 'x'));
  std::vector<wire::Forwarded> messages = Take();
  ASSERT_EQ(messages.size(), wire::kForwardCredit / wire::kMaxForwardBytes);
  for (const wire::Forwarded& each : messages) EXPECT_EQ(each.body.size(), wire::kMaxForwardBytes);
  EXPECT_EQ(messages[1].status, 0U) << "the head is told once";
  End(http_.sent[0].id);
  EXPECT_TRUE(Take().empty());
  calls_.Grant(Key(1), 900);
  EXPECT_EQ(Take().at(0).body.size(), 900U);
  calls_.Grant(Key(1), 500);
  messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].body.size(), 100U);
  EXPECT_TRUE(messages[0].last);
}

TEST_F(ForwardCallsTest, ALongBodyComesInPiecesAsTheEngineReadsThem) {
  wire::Forward forward = Embed(1, std::string(wire::kMaxForwardBytes, 'a'));
  forward.body_bytes = 3 * wire::kMaxForwardBytes;
  Begin(forward);
  EXPECT_EQ(http_.sent[0].call.body_bytes, 3 * wire::kMaxForwardBytes);
  calls_.Append(Key(1), std::string(wire::kMaxForwardBytes, 'b'));
  EXPECT_EQ(http_.appended[Only()], std::string(wire::kMaxForwardBytes, 'b'));
  calls_.OnHttp({http_.sent[0].id, HttpUploaded{wire::kMaxForwardBytes}});
  const auto messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].credit, wire::kMaxForwardBytes);
  EXPECT_EQ(messages[0].status, 0U);
  EXPECT_FALSE(messages[0].last);
}

TEST_F(ForwardCallsTest, ABodyBeyondItsSizeOrItsCreditEndsTheRequest) {
  wire::Forward forward = Embed(1, "abc");
  forward.body_bytes = 5;
  Begin(forward);
  calls_.Append(Key(1), "defg");
  auto messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].error.value().code, ErrorCode::kInvalidArgument);
  forward = Embed(2, "abc");
  forward.body_bytes = std::uint64_t{100} << 20U;
  Begin(forward);
  for (int i = 0; i < 3; ++i) calls_.Append(Key(2), std::string(wire::kForwardCredit, 'x'));
  messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0].error.value().message, HasSubstr("credit"));
  EXPECT_EQ(calls_.open_count(), 0U);
}

TEST_F(ForwardCallsTest, AnEngineThatGoesBeforeAnAnswerLeavesNothingOfIt) {
  Begin(Embed(1, "{}"));
  Status(Only(), 200);
  Bytes(http_.sent[0].id, "half of");
  End(http_.sent[0].id, CallEnd::kBroken);
  const auto messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].status, 0U) << "another engine can answer";
  EXPECT_EQ(messages[0].body, "");
  EXPECT_EQ(messages[0].error.value().code, ErrorCode::kUnavailable);
}

TEST_F(ForwardCallsTest, AnAnswerThatBreaksOffSaysSoAtItsEnd) {
  Begin(Embed(1, "{}"));
  Status(Only(), 200);
  Bytes(http_.sent[0].id, "half of");
  EXPECT_EQ(Take().at(0).body, "half of");
  End(http_.sent[0].id, CallEnd::kBroken);
  const auto messages = Take();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(messages[0].last);
  EXPECT_TRUE(messages[0].error.has_value());
}

TEST_F(ForwardCallsTest, ADeadlineEndsTheCall) {
  Begin(Embed(1, "{}"));
  End(Only(), CallEnd::kTooSlow);
  EXPECT_EQ(Take().at(0).error.value().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(ForwardCallsTest, ACancelClosesTheCallWithoutAWord) {
  Begin(Embed(1, "{}"));
  Begin(Embed(2, "{}"));
  calls_.Cancel(Key(1));
  EXPECT_TRUE(http_.IsClosed(http_.sent[0].id));
  EXPECT_TRUE(calls_.OnHttp({http_.sent[0].id, HttpStatus{200}})) << "an event on its way is nobody else's";
  calls_.CancelLink(kLink);
  EXPECT_TRUE(http_.IsClosed(http_.sent[1].id));
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(calls_.open_count(), 0U);
}

TEST_F(ForwardCallsTest, AnEngineThatIsAwayEndsAll) {
  Begin(Embed(1, "{}"));
  calls_.EndAll({ErrorCode::kUnavailable, "it is gone", ""});
  EXPECT_EQ(Take().at(0).error.value().message, "it is gone");
  EXPECT_TRUE(http_.IsClosed(http_.sent[0].id));
}

TEST_F(ForwardCallsTest, ANameOfTheRouterBecomesOneThatTheEngineKnows) {
  wire::Forward forward = Embed(1, R"({"model":"gpt-poet"})");
  forward.model = "poet";
  forward.model_begin = 10;
  forward.model_end = 18;
  Begin(forward);
  EXPECT_EQ(http_.sent.back().call.body, R"({"model":"poet"})");
}

TEST_F(ForwardCallsTest, ANameThatTheEngineDoesNotKnowBecomesItsOwn) {
  for (const char* const known : {"e5", "embedder", "poet"}) {
    const std::string body = std::string(R"({"model":")") + known + R"("})";
    wire::Forward forward = Embed(1, body);
    forward.model = known;
    forward.model_begin = 10;
    forward.model_end = 10 + forward.model.size();
    Begin(forward);
    EXPECT_EQ(http_.sent.back().call.body, body);
    calls_.Cancel(Key(1));
  }
  facts_.model = R"(the "e5")";
  wire::Forward forward = Embed(2, R"({"model":"gpt-4o","input":"gpt-4o"})");
  forward.model = "gpt-4o";
  forward.model_begin = 10;
  forward.model_end = 16;
  Begin(forward);
  EXPECT_EQ(http_.sent.back().call.body, R"({"model":"the \"e5\"","input":"gpt-4o"})");
  EXPECT_EQ(http_.sent.back().call.body_bytes, http_.sent.back().call.body.size());
  forward.request_id = RequestId(3);
  forward.model_end = 1000;
  Begin(forward);
  EXPECT_TRUE(Take().at(0).error.has_value()) << "a place outside of the body";
}

TEST_F(ForwardCallsTest, ANameIsReplacedHoweverTheBodyIsCut) {
  std::mt19937 draw(7);
  const std::string body = R"({"input":"a","model":"some-name","more":[1,2]})";
  const std::size_t begin = body.find("some-name");
  for (int turn = 0; turn < 500; ++turn) {
    const std::string name(draw() % 20, 'n');
    RenamedBody renamed(begin, begin + 9, name);
    std::string sent;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t size = 1 + draw() % 12;
      sent += renamed.Next(body.substr(at, size));
      at += size;
    }
    EXPECT_EQ(sent, body.substr(0, begin) + name + body.substr(begin + 9));
    EXPECT_EQ(sent.size(), renamed.SizeOf(body.size()));
  }
}

// Whatever the order of reads, credits and messages: every byte comes once, in order, and never beyond the credit.
TEST_F(ForwardCallsTest, RandomCutsAndCreditsLoseNothing) {
  std::mt19937 draw(11);
  for (int turn = 0; turn < 50; ++turn) {
    const std::uint64_t id = 100 + static_cast<std::uint64_t>(turn);
    Begin(Embed(id, "{}"));
    const CallId call = http_.sent.back().id;
    std::string answer(draw() % (3 * wire::kForwardCredit), ' ');
    for (std::size_t i = 0; i < answer.size(); i += 97) answer[i] = static_cast<char>('a' + draw() % 26);
    std::string told;
    std::uint64_t credit = wire::kForwardCredit;
    std::size_t read = 0;
    bool has_ended = false;
    Status(call, 200);
    while (!has_ended) {
      if (read < answer.size() && draw() % 2 == 0) {
        const std::size_t size = std::min<std::size_t>(1 + draw() % 300'000, answer.size() - read);
        Bytes(call, answer.substr(read, size));
        read += size;
        if (read == answer.size()) End(call);
      } else if (read == answer.size() && answer.empty()) {
        End(call);
      } else {
        const std::uint32_t more = static_cast<std::uint32_t>(draw() % 200'000);
        calls_.Grant(Key(id), more);
        credit += more;
      }
      while (const std::optional<LinkForwarded> taken = calls_.TakeAnswer()) {
        told += taken->message.body;
        has_ended = taken->message.last;
      }
      ASSERT_LE(told.size(), credit);
    }
    EXPECT_TRUE(told == answer);
  }
}

// ---- what the engine tells of its cache ----

std::optional<UsageFinder::Usage> UsageIn(std::string_view answer, std::size_t piece_bytes = 7) {
  UsageFinder finder;
  for (; !answer.empty(); answer.remove_prefix(std::min(piece_bytes, answer.size()))) {
    finder.OnBytes(answer.substr(0, piece_bytes));
  }
  return finder.Find();
}

TEST(UsageFinderTest, EveryServersWordsForItAreKnown) {
  const UsageFinder::Usage usage{.prompt_tokens = 100, .cached_tokens = 64};
  for (
      const char* const answer :
      {R"({"choices":[],"usage":{"completion_tokens":4,"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":64}}})",
       R"(data: {"usage": {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64}}})",
       R"(data: {"choices":[{"finish_reason":"stop"}],"timings":{"cache_n":64,"prompt_n":36,"predicted_n":4}})",
       R"({"type":"message","usage":{"cache_read_input_tokens":64,"input_tokens":36,"output_tokens":4}})",
       R"({"object":"response","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64}}})"}) {
    EXPECT_EQ(UsageIn(answer), usage) << answer;
    EXPECT_EQ(UsageIn(answer, 1U << 20U), usage) << answer;
  }
}

TEST(UsageFinderTest, RecordedAnswersOfLlamaCppTellIt) {
  const std::filesystem::path folder =
      std::filesystem::path(roost::testing_support::SourceDir()) / "tests/engines/recordings/llama.cpp";
  std::optional<std::uint32_t> prompt;
  for (const char* const name : {"chat.json", "chat-again.json", "chat-stream.txt", "chat-stream-usage.txt"}) {
    std::ifstream file(folder / name);
    const std::string answer(std::istreambuf_iterator<char>(file), {});
    const std::optional<UsageFinder::Usage> usage = UsageIn(answer);
    ASSERT_TRUE(usage) << name;
    EXPECT_EQ(usage->prompt_tokens, prompt.value_or(usage->prompt_tokens)) << name;
    EXPECT_EQ(usage->cached_tokens, prompt ? *prompt - 1 : 0) << name;
    prompt = usage->prompt_tokens;
  }
}

TEST(UsageFinderTest, HalfOfItIsNothing) {
  for (const char* const answer :
       {"", R"({"usage":{"prompt_tokens":100,"completion_tokens":4}})",
        R"({"prompt_tokens_details":{"cached_tokens":64}})", R"("cached_tokens":)",
        R"("cached_tokens":-1,"prompt_tokens":5)", R"("cached_tokens":"1","prompt_tokens":5)",
        R"("cache_n":4294967295,"prompt_n":4294967295)"}) {
    EXPECT_EQ(UsageIn(answer), std::nullopt) << answer;
  }
}

TEST(UsageFinderTest, WhatTheModelWroteIsNoUsage) {
  EXPECT_EQ(UsageIn(R"({"content":"{\"cached_tokens\":9,\"prompt_tokens\":9}"})"), std::nullopt);
  EXPECT_EQ(UsageIn(R"("cached_tokens":70,"prompt_tokens":60)"), (UsageFinder::Usage{60, 60})) << "at most all";
}

TEST(UsageFinderTest, ItIsFoundAtBothEndsOfALongAnswer) {
  const std::string filling(1U << 20U, 'x');
  EXPECT_EQ(UsageIn(R"("cache_read_input_tokens":1,"input_tokens":2)" + filling, 5000), (UsageFinder::Usage{3, 1}));
  EXPECT_EQ(UsageIn(filling + R"("cached_tokens":1,"prompt_tokens":2)", 5000), (UsageFinder::Usage{2, 1}));
}

TEST_F(ForwardCallsTest, TheUsageComesWithTheEndOfAGoodAnswer) {
  for (const int status : {200, 500}) {
    Begin(Embed(static_cast<std::uint64_t>(status), "{}"));
    const CallId call = Only();
    Status(call, status);
    Bytes(call, R"({"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":64}}})");
    EXPECT_EQ(Take().at(0).prompt_tokens, 0U);
    End(call);
    const std::vector<wire::Forwarded> answer = Take();
    ASSERT_EQ(answer.size(), 1U);
    EXPECT_EQ(answer[0].prompt_tokens, status == 200 ? 100U : 0U);
    EXPECT_EQ(answer[0].cached_tokens, status == 200 ? 64U : 0U);
  }
}

}  // namespace
}  // namespace roost::worker::adapters

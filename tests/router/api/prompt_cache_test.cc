// The prompt cache as OpenAI's and Anthropic's clients speak of it: sessions by headers, lifetimes, prewarming, usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "router/api/requests/session_headers.h"
#include "tests/router/api/api_fixture.h"
#include "tests/router/api/request_bodies.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMinuteMs = 60'000;
constexpr std::uint64_t kHourMs = 60 * kMinuteMs;

class PromptCacheTest : public ApiTest {
 protected:
  PromptCacheTest() {
    ApiKey thrifty;
    thrifty.name = thrifty.tenant = "thrifty";
    thrifty.digest = DigestOfSecret("secret");
    thrifty.max_retention_ms = 60'000;
    ApiKey other = thrifty;
    other.name = other.tenant = "other";
    other.digest = DigestOfSecret("other");
    other.max_retention_ms = 0;
    keys_->Replace({thrifty, other});
  }

  std::shared_ptr<FakeResponder> Send(Api& api, std::string path, std::string body, std::vector<HttpHeader> headers) {
    HttpRequest request;
    request.method = "POST";
    request.path = std::move(path);
    request.body = std::move(body);
    request.headers = std::move(headers);
    request.headers.push_back({"Content-Type", "application/json"});
    request.request_id = "req-1";
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    api.Handle(Listener::kApi, std::move(request), responder);
    return responder;
  }
  // The session of a chat with these headers, on an Api that reads the usual ones.
  std::uint64_t SessionWith(std::vector<HttpHeader> headers, std::string_view members = R"("seed":1)") {
    (void)Send(named_, "/v1/chat/completions", ChatWith(members), std::move(headers));
    return dispatcher_.specs.back().generate.session_hash;
  }
  // The fronts of the prompt that have lifetimes, each with its time.
  std::vector<std::pair<std::string, std::uint64_t>> Kept() const {
    const wire::Generate& generate = dispatcher_.specs.back().generate;
    std::vector<std::pair<std::string, std::uint64_t>> kept;
    for (const wire::Lifetime& each : generate.lifetimes) {
      const auto front = std::span(generate.prompt).first(each.end_token);
      kept.emplace_back(dispatcher_.specs.back().model->tokenizer->Decode(front), each.duration_ms);
    }
    return kept;
  }
  std::string RefusalOf(const std::string& path, std::string body) {
    const auto responder = Ask("POST", path, std::move(body));
    EXPECT_EQ(responder->response->status, 400);
    return responder->response->body;
  }

  const std::shared_ptr<KeyRing> keys_ = std::make_shared<KeyRing>(std::vector<ApiKey>());
  Api named_{dispatcher_,
             observer_,
             clock_,
             text_,
             {.session_headers = SessionHeaders::Parse(UsualSessionHeaders()).value(),
              .unix_seconds_now = [] { return std::int64_t{1'800'000'000}; }}};
  Api locked_{dispatcher_,
              observer_,
              clock_,
              text_,
              {.api_keys = keys_,
               .session_headers = SessionHeaders::Parse(UsualSessionHeaders()).value(),
               .unix_seconds_now = [] { return std::int64_t{1'800'000'000}; }}};
};

// ---- sessions ----

TEST_F(PromptCacheTest, HeadersOfAgentsNameTheSession) {
  EXPECT_EQ(SessionWith({}), 0U);
  const std::uint64_t first = SessionWith({{"X-Claude-Code-Session-Id", "a"}});
  EXPECT_NE(first, 0U);
  EXPECT_EQ(SessionWith({{"x-session-id", "a"}}), first) << "a name is a name";
  for (const char* const header : {"session-id", "session_id", "thread-id", "x-session-affinity"}) {
    EXPECT_EQ(SessionWith({{header, "a"}}), first) << header;
  }
  EXPECT_NE(SessionWith({{"x-session-id", "b"}}), first);
}

TEST_F(PromptCacheTest, ASubAgentIsASessionOfItsOwn) {
  const std::uint64_t whole = SessionWith({{"x-claude-code-session-id", "a"}});
  const std::uint64_t agent = SessionWith({{"x-claude-code-session-id", "a"}, {"x-claude-code-agent-id", "1"}});
  EXPECT_NE(agent, whole);
  EXPECT_NE(SessionWith({{"x-claude-code-session-id", "a"}, {"x-claude-code-agent-id", "2"}}), agent);
  EXPECT_EQ(SessionWith({{"x-claude-code-agent-id", "1"}}), 0U) << "no session without the first header";
}

TEST_F(PromptCacheTest, TheBodysSessionWinsAndLongNamesCountForNothing) {
  const std::uint64_t said = SessionWith({}, R"("session_id":"mine")");
  EXPECT_EQ(SessionWith({{"x-session-id", "a"}}, R"("session_id":"mine")"), said);
  EXPECT_EQ(SessionWith({{"x-session-id", std::string(SessionHeaders::kMaxValueBytes + 1, 'a')}}), 0U);
  EXPECT_EQ(SessionWith({{"x-session-id", ""}}), 0U);
}

TEST_F(PromptCacheTest, TenantsWithOneSessionsNameHaveTwoSessions) {
  std::vector<std::uint64_t> sessions;
  for (const char* const secret : {"secret", "other"}) {
    (void)Send(locked_, "/v1/chat/completions", ChatWith(R"("seed":1)"),
               {{"x-session-id", "a"}, {"Authorization", std::string("Bearer ") + secret}});
    sessions.push_back(dispatcher_.specs.back().generate.session_hash);
  }
  EXPECT_NE(sessions[0], sessions[1]);
}

TEST_F(PromptCacheTest, TheTableOfHeadersIsChecked) {
  for (const char* const row : {"", "x session", "a+", "+a", "a:b", "a+b+c+d+e"}) {
    EXPECT_FALSE(SessionHeaders::Parse({"x-ok", row}).ok()) << row;
  }
  EXPECT_FALSE(SessionHeaders::Parse(std::vector<std::string>(33, "x-a")).ok());
  HttpRequest request;
  request.headers = {{"x-session-id", "a"}};
  EXPECT_EQ(SessionHeaders::Parse({""})->NameIn(request), "") << "an empty flag: none";
  EXPECT_EQ(SessionHeaders::Parse({"x-mine", "x-session-id"})->NameIn(request), "a");
}

TEST_F(PromptCacheTest, ACacheKeyIsNoSession) {
  Chat(ChatWith(R"("prompt_cache_key":"web")"));
  const GenerateSpec first = dispatcher_.specs.back();
  EXPECT_EQ(first.generate.session_hash, 0U);
  EXPECT_NE(first.cache_key_hash, 0U);
  (void)Ask("POST", "/v1/responses", R"({"model":"bytes","input":"other","prompt_cache_key":"web"})");
  EXPECT_EQ(dispatcher_.specs.back().cache_key_hash, first.cache_key_hash);
  EXPECT_EQ(dispatcher_.specs.back().generate.root, first.generate.root) << "no part of a block's identity";
  Chat(ChatWith(R"("prompt_cache_key":"app")"));
  EXPECT_NE(dispatcher_.specs.back().cache_key_hash, first.cache_key_hash);
}

// ---- lifetimes ----

constexpr std::string_view kSystem = "<|im_start|>system\n";

TEST_F(PromptCacheTest, CacheControlKeepsThePromptUpToItsBlock) {
  (void)Ask("POST", "/v1/messages",
            R"({"model":"bytes","max_tokens":5,"system":[{"type":"text","text":"be kind",)"
            R"("cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"today"}],"messages":[)"
            R"({"role":"user","content":[{"type":"text","text":"one","cache_control":{"type":"ephemeral"}},)"
            R"({"type":"text","text":"two"}]}]})");
  EXPECT_THAT(Kept(), ElementsAre(std::pair(std::string(kSystem) + "be kind", kHourMs),
                                  std::pair(std::string(kSystem) + "be kind\ntoday<|im_end|>\n<|im_start|>user\none",
                                            5 * kMinuteMs)));
}

TEST_F(PromptCacheTest, TheWholeRequestsCacheControlKeepsThePrompt) {
  (void)Ask("POST", "/v1/messages",
            R"({"model":"bytes","max_tokens":5,"cache_control":{"type":"ephemeral"},)"
            R"("messages":[{"role":"user","content":"hi"}]})");
  EXPECT_THAT(Kept(), ElementsAre(std::pair(std::string("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"),
                                            5 * kMinuteMs)));
}

TEST_F(PromptCacheTest, MarksOfCallsAndResultsStandBehindThem) {
  (void)Ask(
      "POST", "/v1/messages",
      R"({"model":"bytes","max_tokens":5,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[)"
      R"({"type":"tool_use","id":"t","name":"f","input":{"city":"x"}}]},{"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"t","content":"found","cache_control":{"type":"ephemeral"}},)"
      R"({"type":"text","text":"and?"}]}]})");
  ASSERT_EQ(Kept().size(), 1U);
  EXPECT_THAT(Kept().front().first, ::testing::EndsWith("found"));
}

TEST_F(PromptCacheTest, MarksOfToolsAreNotShownToTheModel) {
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":{}})";
  const std::string messages = R"([{"role":"system","content":"be kind"},{"role":"user","content":"hi"}],"tools":[)";
  Chat(ChatOf(messages + tool + R"(,"cache_control":{"type":"ephemeral"}}])"));
  const auto marked = dispatcher_.specs.back().generate.prompt;
  EXPECT_THAT(Kept(), ElementsAre(std::pair(std::string(kSystem) + "be kind", 5 * kMinuteMs)));
  Chat(ChatOf(messages + tool + "}]"));
  EXPECT_EQ(dispatcher_.specs.back().generate.prompt, marked);
}

TEST_F(PromptCacheTest, OpenAisBreakpointsKeepThePromptAndItsEnd) {
  const std::string messages =
      R"([{"role":"user","content":[{"type":"text","text":"one","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}},)"
      R"({"type":"text","text":"two"}]}])";
  Chat(ChatOf(messages));
  const std::string front = "<|im_start|>user\none";
  const std::string whole = front + "\ntwo<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_THAT(Kept(), ElementsAre(std::pair(front, 12 * kHourMs), std::pair(whole, 30 * kMinuteMs)));
  Chat(ChatOf(messages + R"(,"prompt_cache_options":{"mode":"explicit"})"));
  EXPECT_THAT(Kept(), ElementsAre(std::pair(front, 12 * kHourMs)));
  Chat(ChatWith(R"("prompt_cache_options":{"mode":"explicit","ttl":"30m"})"));
  EXPECT_THAT(Kept(), IsEmpty()) << "explicit, and no breakpoint";
  Chat(ChatWith(R"("prompt_cache_options":{"ttl":"30m"})"));
  ASSERT_EQ(Kept().size(), 1U);
  EXPECT_EQ(Kept().front().second, 30 * kMinuteMs);
  Chat(ChatWith(R"("prompt_cache_options":{"mode":"implicit"},"prompt_cache_retention":"in_memory")"));
  EXPECT_THAT(Kept(), IsEmpty()) << "nothing asks for a time";
  Complete(CompletionWith(R"("prompt_cache_retention":"24h")"));
  EXPECT_THAT(Kept(), ElementsAre(std::pair(std::string("<s>hi"), 24 * kHourMs)));
}

TEST_F(PromptCacheTest, ResponsesTakeBreakpointsToo) {
  (void)Ask("POST", "/v1/responses",
            R"({"model":"bytes","prompt_cache_options":{"mode":"explicit"},"input":[{"role":"user","content":[)"
            R"({"type":"input_text","text":"one","prompt_cache_breakpoint":{"mode":"explicit"}},)"
            R"({"type":"input_text","text":"two"}]}]})");
  EXPECT_THAT(Kept(), ElementsAre(std::pair(std::string("<|im_start|>user\none"), 30 * kMinuteMs)));
}

TEST_F(PromptCacheTest, OfManyBreakpointsTheLastCount) {
  std::string parts;
  for (int i = 0; i < 6; ++i) {
    parts += fmt::format(R"({}{{"type":"text","text":"p{}","prompt_cache_breakpoint":{{"mode":"explicit"}}}})",
                         i == 0 ? "" : ",", i);
  }
  Chat(ChatOf(R"([{"role":"user","content":[)" + parts + "]}]"));
  ASSERT_EQ(Kept().size(), 4U);
  EXPECT_THAT(Kept().front().first, ::testing::EndsWith("p3"));
}

TEST_F(PromptCacheTest, TextThatLooksLikeTheTemplateMovesNoPlace) {
  Chat(ChatOf(
      R"([{"role":"system","content":"user"},{"role":"user","content":[)"
      R"({"type":"text","text":"user","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"text","text":"x"}]}],)"
      R"("prompt_cache_options":{"mode":"explicit"})"));
  EXPECT_THAT(Kept(),
              ElementsAre(std::pair(std::string(kSystem) + "user<|im_end|>\n<|im_start|>user\nuser", 30 * kMinuteMs)));
}

TEST_F(PromptCacheTest, AKeysCeilingShortensEveryTime) {
  const std::string body = ChatWith(
      R"("prompt_cache_options":{"ttl":"30m"},"expect_return_ms":90000,"cache":{"retention":{"duration_ms":90000}})");
  (void)Send(locked_, "/v1/chat/completions", body, {{"Authorization", "Bearer secret"}});
  const wire::Generate& generate = dispatcher_.specs.back().generate;
  ASSERT_EQ(generate.lifetimes.size(), 1U);
  EXPECT_EQ(generate.lifetimes[0].duration_ms, 60'000U);
  EXPECT_EQ(generate.expect_return_ms, 60'000U);
  EXPECT_EQ(generate.retention->prompt_duration_ms, 60'000U);
  (void)Send(locked_, "/v1/chat/completions", body, {{"Authorization", "Bearer other"}});
  EXPECT_THAT(dispatcher_.specs.back().generate.lifetimes, IsEmpty()) << "a ceiling of 0: nothing stays";
}

TEST_F(PromptCacheTest, AReturnIsLearnedWhereTheClientSaysNothingOfTimes) {
  const auto longest = [this](std::string_view members, std::string_view key = "secret") {
    (void)Send(locked_, "/v1/chat/completions", ChatWith(members), {{"Authorization", fmt::format("Bearer {}", key)}});
    return dispatcher_.specs.back().longest_learned_return_ms;
  };
  EXPECT_EQ(longest(R"("session_id":"s")"), kMinuteMs) << "the key's ceiling";
  EXPECT_EQ(longest(R"("session_id":"s")", "other"), 0U) << "a ceiling of 0: nothing stays";
  EXPECT_EQ(longest(R"("session_id":"s","expect_return_ms":1)"), 0U);
  EXPECT_EQ(longest(R"("session_id":"s","cache":{"retention":{"duration_ms":1}})"), 0U);
  EXPECT_EQ(longest(R"("session_id":"s","prompt_cache_options":{"ttl":"30m"})"), 0U);
  EXPECT_EQ(longest(R"("session_id":"s","prompt_cache_options":{"mode":"explicit"})"), 0U);
  EXPECT_EQ(longest(R"("session_id":"s","cache":"off")"), 0U);
}

struct BadCase {
  std::string path;
  std::string body;
  std::string field;
};

TEST_F(PromptCacheTest, WrongValuesAreRefusedByName) {
  const auto message = [](std::string_view control) {
    return fmt::format(R"({{"model":"bytes","max_tokens":5,"messages":[{{"role":"user","content":[{{"type":"text",)"
                       R"("text":"x","cache_control":{}}}]}}]}})",
                       control);
  };
  const std::string five = [] {
    std::string parts;
    for (int i = 0; i < 5; ++i) {
      parts += std::string(i == 0 ? "" : ",") + R"({"type":"text","text":"x","cache_control":{"type":"ephemeral"}})";
    }
    return R"({"model":"bytes","max_tokens":5,"messages":[{"role":"user","content":[)" + parts + "]}]}";
  }();
  const std::string chat = "/v1/chat/completions";
  const std::vector<BadCase> cases{
      {"/v1/messages", message(R"({"type":"ephemeral","ttl":"2h"})"), "messages[0].content[0].cache_control.ttl"},
      {"/v1/messages", message(R"({"type":"forever"})"), "messages[0].content[0].cache_control.type"},
      {"/v1/messages", message(R"("ephemeral")"), "messages[0].content[0].cache_control"},
      {"/v1/messages", five, "cache_control"},
      {"/v1/messages",
       R"({"model":"bytes","max_tokens":5,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],)"
       R"("messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]})",
       "cache_control.ttl"},
      {chat, ChatWith(R"("prompt_cache_options":{"ttl":"1h"})"), "prompt_cache_options.ttl"},
      {chat, ChatWith(R"("prompt_cache_options":{"mode":"auto"})"), "prompt_cache_options.mode"},
      {chat, ChatWith(R"("prompt_cache_options":{"prewarm":1})"), "prompt_cache_options.prewarm"},
      {chat, ChatWith(R"("prompt_cache_options":"explicit")"), "prompt_cache_options"},
      {chat, ChatWith(R"("prompt_cache_retention":"2d")"), "prompt_cache_retention"},
      {chat, ChatWith(R"("prompt_cache_key":7)"), "prompt_cache_key"},
      {chat,
       ChatOf(
           R"([{"role":"user","content":[{"type":"text","text":"x","prompt_cache_breakpoint":{"mode":"implicit"}}]}])"),
       "messages[0].content[0].prompt_cache_breakpoint.mode"},
  };
  for (const BadCase& each : cases) EXPECT_THAT(RefusalOf(each.path, each.body), HasSubstr(each.field)) << each.body;
  EXPECT_THAT(dispatcher_.specs, IsEmpty());
}

// ---- prewarming and usage ----

TEST_F(PromptCacheTest, PrewarmingComputesThePromptAndAnswersNothing) {
  const auto responder = Chat(ChatWith(R"("prompt_cache_options":{"prewarm":true},"max_tokens":50,"n":3)"));
  ASSERT_EQ(dispatcher_.specs.size(), 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.max_output_tokens, 1U);
  EXPECT_EQ(dispatcher_.specs[0].generate.sample_count, 1U);
  dispatcher_.Dispatch(0);
  dispatcher_.ProduceWriting(Bytes("x"), 0, 40);
  dispatcher_.Finish(wire::FinishReason::kLength);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices/0/message/content"), R"("")");
  EXPECT_EQ(At(body, "/choices/0/finish_reason"), R"("stop")");
  EXPECT_EQ(At(body, "/usage/completion_tokens"), "0");
  EXPECT_EQ(At(body, "/usage/prompt_tokens_details/cache_write_tokens"), "40");
}

TEST_F(PromptCacheTest, UsageDividesThePromptIntoReadWrittenAndTheRest) {
  const auto responder =
      Ask("POST", "/v1/messages",
          R"({"model":"bytes","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"one",)"
          R"("cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"two"}]}]})");
  dispatcher_.Dispatch(4);
  dispatcher_.ProduceWriting(Bytes("x"), 4, 16);
  dispatcher_.Finish(wire::FinishReason::kStop);
  const std::string& body = responder->response->body;
  const std::size_t prompt = dispatcher_.specs[0].generate.prompt.size();
  const std::size_t hour =
      std::string_view("<|im_start|>user\none").size() - std::string_view("<|im_start|>").size() + 1;
  EXPECT_EQ(At(body, "/usage/input_tokens"), fmt::to_string(prompt - 20));
  EXPECT_EQ(At(body, "/usage/cache_read_input_tokens"), "4");
  EXPECT_EQ(At(body, "/usage/cache_creation_input_tokens"), "16");
  EXPECT_EQ(At(body, "/usage/cache_creation/ephemeral_1h_input_tokens"), fmt::to_string(hour - 4));
  EXPECT_EQ(At(body, "/usage/cache_creation/ephemeral_5m_input_tokens"), fmt::to_string(16 - (hour - 4)));
}

TEST_F(PromptCacheTest, StreamsTellWhatWasWritten) {
  const auto message =
      Ask("POST", "/v1/messages",
          R"({"model":"bytes","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]})");
  dispatcher_.ProduceWriting(Bytes("x"), 4, 8);
  dispatcher_.Finish(wire::FinishReason::kStop);
  EXPECT_THAT(message->frames.substr(message->frames.find("message_delta")),
              HasSubstr(R"("cache_creation_input_tokens":8)"));
  const auto chat = Chat(ChatWith(R"("stream":true,"stream_options":{"include_usage":true})"));
  dispatcher_.ProduceWriting(Bytes("x"), 4, 8);
  dispatcher_.Finish(wire::FinishReason::kStop);
  EXPECT_THAT(chat->frames, HasSubstr(R"("prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":8})"));
  const auto response = Ask("POST", "/v1/responses", R"({"model":"bytes","stream":true,"input":"hi"})");
  dispatcher_.ProduceWriting(Bytes("x"), 4, 8);
  dispatcher_.Finish(wire::FinishReason::kStop);
  EXPECT_THAT(response->frames, HasSubstr(R"("input_tokens_details":{"cached_tokens":4,"cache_write_tokens":8})"));
}

}  // namespace
}  // namespace roost::router

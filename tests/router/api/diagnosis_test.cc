// Diagnoses of prompts that were not found in the cache: the comparison of two requests, the cache's side, and the
// forms in which clients get both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "router/api/diagnosis_memory.h"
#include "router/route/log/cache_verdict.h"
#include "tests/router/api/diagnosis_fixture.h"
#include "tests/router/api/request_bodies.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;
using Before = PromptComparison::Before;

// ---- the memory ----

std::shared_ptr<const PromptPrint> PrintOf(std::uint32_t tokens) {
  return std::make_shared<const PromptPrint>(
      PromptPrint{.messages = {1, 2, 3}, .blocks = {4, 5}, .prompt_tokens = tokens});
}

TEST(DiagnosisMemoryTest, APrintIsItsTenantsAlone) {
  DiagnosisMemory memory(1U << 20U, 7);
  memory.Keep({"acme", "s"}, "msg_1", PrintOf(40), Instant());
  ASSERT_NE(memory.Find("acme", "msg_1", Instant()), nullptr);
  EXPECT_EQ(memory.Find("acme", "msg_1", Instant())->prompt_tokens, 40U);
  EXPECT_EQ(memory.Find("bird", "msg_1", Instant()), nullptr);
  EXPECT_EQ(memory.Find("acme", "msg_2", Instant()), nullptr);
  EXPECT_NE(memory.LastOf({"acme", "s"}, Instant()), nullptr);
  EXPECT_EQ(memory.LastOf({"bird", "s"}, Instant()), nullptr);
  EXPECT_EQ(memory.Find("acme", "s", Instant()), nullptr) << "a session's name is no answer's id";
}

TEST(DiagnosisMemoryTest, ASessionHasItsLastPrint) {
  DiagnosisMemory memory(1U << 20U, 7);
  for (std::uint32_t i = 1; i <= 3; ++i) memory.Keep({"acme", "s"}, "msg_" + std::to_string(i), PrintOf(i), Instant());
  EXPECT_EQ(memory.LastOf({"acme", "s"}, Instant())->prompt_tokens, 3U);
  EXPECT_EQ(memory.Find("acme", "msg_1", Instant())->prompt_tokens, 1U);
}

TEST(DiagnosisMemoryTest, AMillionAnswersStayWithinTheBound) {
  constexpr std::size_t kMost = 1U << 20U;
  DiagnosisMemory memory(kMost, 7);
  for (int i = 0; i < 1'000'000; ++i) {
    memory.Keep({"acme", std::to_string(i % 1000)}, "msg_" + std::to_string(i), PrintOf(40), Instant());
  }
  EXPECT_LE(memory.held_bytes(), kMost);
  EXPECT_GT(memory.size(), 1000U);
  EXPECT_EQ(memory.Find("acme", "msg_0", Instant()), nullptr);
  EXPECT_NE(memory.Find("acme", "msg_999999", Instant()), nullptr);
}

TEST(DiagnosisMemoryTest, PrintsLastAnHour) {
  DiagnosisMemory memory(1U << 20U, 7);
  memory.Keep({"acme", "s"}, "msg_1", PrintOf(40), Instant());
  const Instant later = Instant() + std::chrono::minutes(61);
  EXPECT_EQ(memory.Find("acme", "msg_1", later), nullptr);
  EXPECT_EQ(memory.LastOf({"acme", "s"}, later), nullptr);
  memory.Keep({"acme", ""}, "msg_2", PrintOf(40), later);
  EXPECT_EQ(memory.size(), 1U);
}

// ---- the verdict ----

struct VerdictCase {
  PromptComparison comparison;
  PromptOutcome outcome;
  MissCause cause;
  std::uint32_t tokens;
};

TEST(CacheVerdictTest, ComparesTheRequestsFirstAndThenTheCache) {
  using wire::PromptMiss;
  const PromptComparison same{.before = Before::kFound, .token = 64};
  const PromptComparison changed{
      .before = Before::kFound, .change = PromptChange::kMessage, .message = 2, .token = 32, .missed_tokens = 50};
  const PromptComparison salted{.before = Before::kFound, .change = PromptChange::kScope, .missed_tokens = 80};
  const auto found = [](std::uint32_t cached, PromptMiss miss, std::uint32_t elsewhere = 0) {
    return PromptOutcome{.prompt_tokens = 100, .cached_tokens = cached, .miss = miss, .elsewhere_tokens = elsewhere};
  };
  const std::vector<VerdictCase> cases{
      {same, found(64, PromptMiss::kCold), MissCause::kNone, 0},
      {same, found(70, PromptMiss::kCold), MissCause::kNone, 0},
      {same, found(16, PromptMiss::kEvicted), MissCause::kEvicted, 48},
      {same, found(16, PromptMiss::kCold), MissCause::kNeverHere, 48},
      {same, found(16, PromptMiss::kInFlight, 64), MissCause::kInFlight, 48},
      {same, found(16, PromptMiss::kEvicted, 64), MissCause::kElsewhere, 48},
      {same, found(16, PromptMiss::kNotArrived), MissCause::kElsewhere, 48},
      {same, found(16, PromptMiss::kNone), MissCause::kEvicted, 48},  // as known when it is routed
      {changed, found(32, PromptMiss::kCold), MissCause::kChanged, 50},
      {changed, found(40, PromptMiss::kCold), MissCause::kChanged, 50},
      {changed, found(70, PromptMiss::kCold), MissCause::kChanged, 30},  // the rest was found
      {changed, found(96, PromptMiss::kNone), MissCause::kNone, 0},      // a third request was the same
      {salted, found(0, PromptMiss::kCold), MissCause::kOtherScope, 80},
      {salted, found(96, PromptMiss::kNone), MissCause::kNone, 0},
      {{}, found(96, PromptMiss::kNone), MissCause::kNone, 0},
      {{}, found(0, PromptMiss::kCold), MissCause::kNeverHere, 96},
      {{}, found(0, PromptMiss::kEvicted), MissCause::kEvicted, 96},
      {{}, found(0, PromptMiss::kDisabled), MissCause::kNone, 0},
      {{}, found(0, PromptMiss::kNone), MissCause::kNone, 0},  // not known yet
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CacheVerdict verdict = VerdictOf(cases[i].comparison, cases[i].outcome);
    EXPECT_EQ(verdict.cause, cases[i].cause) << "case " << i;
    EXPECT_EQ(verdict.tokens, cases[i].tokens) << "case " << i;
  }
}

TEST(CacheVerdictTest, AWorkerThatHadItAndLacksItHasEvictedIt) {
  using wire::PromptMiss;
  using Worker = BlockLoss::Worker;
  const PromptComparison same{.before = Before::kFound, .token = 64};
  const auto cause = [&](PromptMiss miss, Worker before) {
    return VerdictOf(same, {.prompt_tokens = 100, .miss = miss, .before = before}).cause;
  };
  EXPECT_EQ(cause(PromptMiss::kCold, Worker::kThere), MissCause::kEvicted) << "so long ago that it has forgotten";
  EXPECT_EQ(cause(PromptMiss::kCold, Worker::kClosed), MissCause::kElsewhere);
  for (const Worker gone : {Worker::kRestarted, Worker::kLeft, Worker::kLost}) {
    EXPECT_EQ(cause(PromptMiss::kCold, gone), MissCause::kNeverHere);
    EXPECT_EQ(cause(PromptMiss::kNone, gone), MissCause::kNeverHere) << "not told yet";
    EXPECT_EQ(cause(PromptMiss::kEvicted, gone), MissCause::kEvicted) << "this one had it too";
  }
}

TEST(CacheVerdictTest, SaysItInASentence) {
  PromptComparison comparison{.before = Before::kFound, .change = PromptChange::kMessage, .message = 2, .token = 2114};
  EXPECT_EQ(SentenceOf(comparison, {MissCause::kChanged, 18'200}),
            "message 3 differs from the request before at token 2,114; 18,200 tokens computed again");
  comparison = {.before = Before::kFound};
  EXPECT_EQ(SentenceOf(comparison, {MissCause::kEvicted, 999}),
            "the request before is the same up to here, but it was evicted; 999 tokens computed again");
  comparison.seconds_ago = 12.34;
  EXPECT_EQ(
      SentenceOf(comparison, {MissCause::kEvicted, 999}, {BlockLoss::Worker::kThere, BlockLoss::Level::kDisk, "w"}),
      "the request before is the same up to here, but it was evicted from memory and disk of w within the last "
      "12.3 s; 999 tokens computed again");
  EXPECT_EQ(SentenceOf(comparison, {MissCause::kElsewhere, 1'000'000}, {}, "w"),
            "the request before is the same up to here, but w holds it; 1,000,000 tokens computed again");
  EXPECT_EQ(SentenceOf({}, {MissCause::kNone, 0}), "");
}

// ---- through the API ----

constexpr std::string_view kOne = R"({"role":"user","content":"the first question of all"})";
constexpr std::string_view kAnswer = R"({"role":"assistant","content":"and its answer"})";
constexpr std::string_view kTwo = R"({"role":"user","content":"the second one"})";

std::string Joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(all.empty() ? "" : ",").append(part);
  return all;
}

TEST_F(DiagnosisTest, AnthropicsFormNamesWhatChanged) {
  struct Case {
    std::string body;
    std::string type;
    PromptChange change;
  };
  const auto first = Send("/v1/messages", Message("be kind", Joined({kOne, kAnswer, kTwo})));
  End();
  const std::string id = At(first->response->body, "/id");
  EXPECT_EQ(At(first->response->body, "/diagnostics"), "") << "it did not ask";
  const std::string edited = R"({"role":"user","content":"the first question, edited"})";
  const std::string other = Message("be kind", Joined({kOne, kAnswer, kTwo}), Compare(id));
  const std::vector<Case> cases{
      {Message("be rude", Joined({kOne, kAnswer, kTwo}), Compare(id)), "system_changed", PromptChange::kSystem},
      {Message("be kind", Joined({edited, kAnswer, kTwo}), Compare(id)), "messages_changed", PromptChange::kMessage},
      {R"({"model":"other")" + other.substr(std::string_view(R"({"model":"bytes")").size()), "model_changed",
       PromptChange::kModel},
      {Message("be kind", Joined({kOne, kAnswer, kTwo}), Compare(id) + R"(,"cache_salt":"s")"), "unavailable",
       PromptChange::kScope},
  };
  for (const Case& each : cases) {
    const auto answer = Send("/v1/messages", each.body);
    End();
    EXPECT_EQ(At(answer->response->body, "/diagnostics/cache_miss_reason/type"), '"' + each.type + '"') << each.body;
    EXPECT_EQ(Comparison().change, each.change);
  }
  const auto more = Send("/v1/messages", Message("be kind", Joined({kOne, kAnswer, kTwo, kAnswer, kOne}), Compare(id)));
  End(static_cast<std::uint32_t>(dispatcher_.specs.back().generate.prompt.size()) - 1);
  EXPECT_EQ(At(more->response->body, "/diagnostics"), "null") << "it continues the other one";
  const auto lost = Send("/v1/messages", Message("be kind", Joined({kOne, kAnswer, kTwo, kAnswer}), Compare(id)));
  End(0, wire::PromptMiss::kEvicted);
  EXPECT_EQ(At(lost->response->body, "/diagnostics"), R"({"cache_miss_reason":{"type":"unavailable"}})");
  EXPECT_THAT(HeaderOf(lost->response->headers, "x-roost-miss"), HasSubstr("evicted; tokens="));
  const auto found = Send("/v1/messages", Message("be rude", Joined({kOne, kAnswer, kTwo}), Compare(id)));
  End(static_cast<std::uint32_t>(dispatcher_.specs.back().generate.prompt.size()) - 1);
  EXPECT_EQ(At(found->response->body, "/diagnostics"), "null") << "another request has left all of it";
  const auto unknown = Send("/v1/messages", Message("be kind", kOne, Compare(R"("msg_unknown")")));
  End();
  EXPECT_EQ(At(unknown->response->body, "/diagnostics"),
            R"({"cache_miss_reason":{"type":"previous_message_not_found"}})");
  const auto opted = Send("/v1/messages", Message("be kind", kOne, Compare("null")));
  End();
  EXPECT_EQ(At(opted->response->body, "/diagnostics"), "null");
}

TEST_F(DiagnosisTest, ThePlaceIsThatOfTheMessageAndOfTheBlock) {
  const auto first = Send("/v1/messages", Message("be kind", Joined({kOne, kAnswer, kTwo})));
  End();
  const std::string id = At(first->response->body, "/id");
  const auto before = static_cast<std::uint32_t>(dispatcher_.specs.back().generate.prompt.size());
  const std::string edited = R"({"role":"user","content":"the second two"})";
  (void)Send("/v1/messages", Message("be kind", Joined({kOne, kAnswer, edited}), Compare(id)));
  EXPECT_EQ(Comparison().message, 2U);
  const GenerateSpec& spec = dispatcher_.specs.back();
  const std::string text = spec.model->tokenizer->Decode(std::span(spec.generate.prompt).first(Comparison().token));
  EXPECT_THAT(text, ::testing::EndsWith("the secon"));  // to the block of four
  EXPECT_EQ(Comparison().missed_tokens, before - Comparison().token);
}

TEST_F(DiagnosisTest, AnotherTenantsAnswerIsNotFound) {
  const auto first = Send("/v1/messages", Message("be kind", kOne));
  End();
  const auto other = Send("/v1/messages", Message("be rude", kOne, Compare(At(first->response->body, "/id"))), "bird");
  End();
  EXPECT_EQ(At(other->response->body, "/diagnostics"),
            R"({"cache_miss_reason":{"type":"previous_message_not_found"}})");
}

TEST_F(DiagnosisTest, OpenAisFormNamesWhatChanged) {
  const auto respond = [&](std::string_view instructions, std::string_view more) {
    return Send("/v1/responses", fmt::format(R"({{"model":"bytes","instructions":"{}","input":"a long question"{}}})",
                                             instructions, more));
  };
  const auto first = respond("be kind", "");
  End();
  const std::string options =
      fmt::format(R"(,"prompt_cache_options":{{"comparison_response_id":{}}})", At(first->response->body, "/id"));
  const auto same = respond("be kind", options);
  End(static_cast<std::uint32_t>(dispatcher_.specs.back().generate.prompt.size()) - 1);
  EXPECT_EQ(At(same->response->body, "/prompt_cache_diagnostics"), R"({"type":"cache_hit"})");
  const auto changed = respond("be rude", options);
  End();
  const std::string& body = changed->response->body;
  EXPECT_EQ(At(body, "/prompt_cache_diagnostics/type"), R"("cache_miss")");
  EXPECT_EQ(At(body, "/prompt_cache_diagnostics/reason"), R"("input_changed")");
  EXPECT_THAT(HeaderOf(changed->response->headers, "x-roost-miss"), HasSubstr("changed; tokens="));
  const auto lost = respond("be kind", options);
  End(0);
  EXPECT_EQ(At(lost->response->body, "/prompt_cache_diagnostics"), R"({"type":"unavailable"})");
  const auto unknown = respond("be kind", R"(,"prompt_cache_options":{"comparison_response_id":"resp_no"})");
  End();
  EXPECT_EQ(At(unknown->response->body, "/prompt_cache_diagnostics"), R"({"type":"comparison_response_not_found"})");
}

TEST_F(DiagnosisTest, ToolsThatChangeTheirOrderAreNamed) {
  const auto chat = [&](std::string_view tools, std::string_view more) {
    return Send(
        "/v1/chat/completions",
        fmt::format(R"({{"model":"bytes","messages":[{{"role":"system","content":"be kind"}},{}],"tools":[{}]{}}})",
                    kOne, tools, more));
  };
  ServedModel model = ByteModel();
  model.max_context_tokens = 2000;
  model.chat_template =
      std::move(ChatTemplate::Parse("{%- for t in tools or [] -%}{{- t.function.name + ' ' -}}{%- endfor -%}"
                                    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' + m.content -}}"
                                    "{{- '<|im_end|>\\n' -}}{%- endfor -%}",
                                    "tools in front")
                    .value());
  Serve(std::move(model));
  const std::string a = R"({"type":"function","function":{"name":"alpha_tool"}})";
  const std::string b = R"({"type":"function","function":{"name":"beta_tool"}})";
  const auto first = chat(a + "," + b, "");
  End();
  const auto second = chat(b + "," + a, fmt::format(R"(,"prompt_cache_options":{{"comparison_response_id":{}}})",
                                                    At(first->response->body, "/id")));
  End();
  EXPECT_EQ(At(second->response->body, "/prompt_cache_diagnostics/reason"), R"("tools_changed")");
}

TEST_F(DiagnosisTest, StreamsCarryTheDiagnosis) {
  const auto first = Send("/v1/messages", Message("be kind", kOne));
  End();
  const std::string id = At(first->response->body, "/id");
  const auto stream = Send("/v1/messages", Message("be rude", kOne, Compare(id) + R"(,"stream":true)"));
  End();
  EXPECT_THAT(stream->frames.substr(0, stream->frames.find("\n\n")), HasSubstr(R"("type":"system_changed")"));
  EXPECT_THAT(HeaderOf(stream->stream_headers, "x-roost-miss"), HasSubstr("changed; tokens="));
}

TEST_F(DiagnosisTest, WithoutAnIdASessionsLastRequestIsCompared) {
  (void)Send("/v1/messages", Message("be kind", kOne, R"(,"session_id":"s")"));
  End();
  (void)Send("/v1/messages", Message("be rude", kOne, R"(,"session_id":"s")"));
  EXPECT_EQ(Comparison().change, PromptChange::kSystem);
  EXPECT_FALSE(Comparison().is_named);
  (void)Send("/v1/messages", Message("be rude", kOne, R"(,"session_id":"s")"), "bird");
  EXPECT_EQ(Comparison().before, Before::kNone) << "another tenant's session";
}

TEST_F(DiagnosisTest, WrongFieldsAreNamed) {
  const auto responder = Send("/v1/messages", Message("be kind", kOne, R"(,"diagnostics":{"previous_message_id":7})"));
  EXPECT_EQ(responder->response->status, 400);
  EXPECT_THAT(responder->response->body, HasSubstr("diagnostics.previous_message_id"));
}

}  // namespace
}  // namespace roost::router

// Tool calls and reasoning as clients of the chat API see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/calls_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using wire::FinishReason;

TEST_F(CallsTest, StreamNameFirstThenArgumentsWithOneIdEach) {
  const auto responder = Ask(R"("stream":true,"stream_options":{"include_usage":true})");
  Write(
      "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 22}}\n</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(Joined(Parts(*responder, "/choices/0/delta/content")), "Let me see.");
  const std::vector<std::string> ids = Parts(*responder, "/choices/0/delta/tool_calls/0/id");
  ASSERT_THAT(ids, SizeIs(2));
  EXPECT_THAT(ids[0], StartsWith("\"call_"));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_THAT(Parts(*responder, "/choices/0/delta/tool_calls/0/function/name"), ElementsAre("\"add\"", "\"add\""));
  std::vector<std::string> arguments(2);
  bool named = false;
  for (const std::string& event : Events(*responder)) {
    const std::string call = At(event, "/choices/0/delta/tool_calls/0");
    if (call.empty()) continue;
    named = named || !At(call, "/function/name").empty();
    EXPECT_TRUE(named) << "the name comes first";
    const std::string piece = At(call, "/function/arguments");
    arguments.at(At(call, "/index") == "0" ? 0 : 1) += piece.substr(1, piece.size() - 2);
  }
  EXPECT_THAT(arguments, ElementsAre(R"({\"a\": 1})", R"({\"a\": 22})"));
  EXPECT_THAT(Parts(*responder, "/choices/0/finish_reason"), ElementsAre("\"tool_calls\""));
}

TEST_F(CallsTest, WholeAnswersHaveTheIdsThatStreamsHave) {
  const auto responder = Ask(R"("stream":false)");
  Write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices/0/message/tool_calls/0/function"), R"({"name":"add","arguments":"{\"a\": 1}"})");
  EXPECT_THAT(At(body, "/choices/0/message/tool_calls/0/id"), StartsWith("\"call_"));
  EXPECT_EQ(At(body, "/choices/0/message/content"), "null");
  EXPECT_EQ(At(body, "/choices/0/finish_reason"), "\"tool_calls\"");
}

// They do not parse, which tells the client that the call is broken.
TEST_F(CallsTest, BrokenArgumentsAreTheSameInAStreamAndInABody) {
  for (const std::string_view arguments : {R"({"a" 1})", R"({"a": 1)"}) {
    const std::string written = fmt::format("<tool_call>{{\"name\": \"add\", \"arguments\": {}", arguments);
    const auto body = Ask(R"("stream":false)");
    Write(written);
    dispatcher_.Finish(FinishReason::kStop);
    const auto stream = Ask(R"("stream":true)");
    Write(written);
    dispatcher_.Finish(FinishReason::kStop);
    const std::string whole = At(body->response->body, "/choices/0/message/tool_calls/0/function/arguments");
    EXPECT_EQ(whole, "\"" + Joined(Parts(*stream, "/choices/0/delta/tool_calls/0/function/arguments")) + "\"");
    EXPECT_EQ(At(body->response->body, "/choices/0/message/content"), "null");
  }
}

TEST_F(CallsTest, ReasoningIsASummaryWhereResponsesAskForOne) {
  for (const std::string_view stream : {"true", "false"}) {
    dispatcher_.specs.clear();
    const auto responder = this->ApiTest::Ask(
        "POST", "/v1/responses",
        fmt::format(R"({{"model":"bytes","input":"hi","reasoning":{{"summary":"auto"}},"stream":{}}})", stream));
    dispatcher_.Dispatch(0);
    Write("<think>a plan</think>the answer");
    dispatcher_.Finish(FinishReason::kStop);
    if (stream == "false") {
      EXPECT_EQ(At(responder->response->body, "/output/0/summary"), R"([{"type":"summary_text","text":"a plan"}])");
      EXPECT_EQ(At(responder->response->body, "/output/0/content"), "[]");
      continue;
    }
    const std::string& types = responder->frames;
    for (const char* type : {"reasoning_summary_part.added", "reasoning_summary_text.delta",
                             "reasoning_summary_text.done", "reasoning_summary_part.done"}) {
      EXPECT_THAT(types, HasSubstr(type));
    }
    EXPECT_EQ(types.find("reasoning_text"), std::string::npos);
  }
}

TEST_F(CallsTest, ThinkingInMessagesEndsWithASignature) {
  const auto responder = this->ApiTest::Ask(
      "POST", "/v1/messages",
      R"({"model":"bytes","max_tokens":99,"messages":[{"role":"user","content":"hi"}],"stream":true})");
  dispatcher_.Dispatch(0);
  Write("<think>a plan</think>the answer");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_THAT(responder->frames, HasSubstr(R"("delta":{"type":"signature_delta","signature":"roost"})"));
}

// Their input is an object: a stream waits for it, and what is none is text in both.
TEST_F(CallsTest, CallsOfMessagesAreWholeOrText) {
  for (const std::string_view stream : {"true", "false"}) {
    for (const bool is_whole : {true, false}) {
      dispatcher_.specs.clear();
      const auto responder = this->ApiTest::Ask(
          "POST", "/v1/messages",
          fmt::format(R"({{"model":"bytes","max_tokens":99,"messages":[{{"role":"user","content":"hi"}}],"stream":{},)"
                      R"("tools":[{{"name":"add","input_schema":{{"type":"object"}}}}]}})",
                      stream));
      dispatcher_.Dispatch(0);
      Write(fmt::format("<tool_call>{{\"name\": \"add\", \"arguments\": {{\"a\": 9223372036854775808{}",
                        is_whole ? "}}" : ""));
      dispatcher_.Finish(FinishReason::kStop);
      const std::string all = stream == "false" ? responder->response->body : responder->frames;
      EXPECT_EQ(all.find("tool_use") != std::string::npos, is_whole) << all;
      EXPECT_THAT(all, HasSubstr("9223372036854775808"));
    }
  }
}

TEST_F(CallsTest, ReasoningStreamsForItselfAndIsCounted) {
  const auto responder = Ask(R"("stream":true,"stream_options":{"include_usage":true})");
  Write("<think>a plan</think>the answer");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(Joined(Parts(*responder, "/choices/0/delta/reasoning_content")), "a plan");
  EXPECT_EQ(Joined(Parts(*responder, "/choices/0/delta/content")), "the answer");
  const std::vector<std::string> counts = Parts(*responder, "/usage/completion_tokens_details/reasoning_tokens");
  ASSERT_THAT(counts, SizeIs(1));
  EXPECT_GE(std::stoi(counts[0]), 6);   // a byte is a token
  EXPECT_LE(std::stoi(counts[0]), 21);  // markers are in the first and last pieces
}

TEST_F(CallsTest, StopStringsDoNotEndAnAnswerInsideItsReasoning) {
  const auto responder = Ask(R"("stop":["manner"])");
  Write("<think>in a manner</think>of speaking, no manners");
  dispatcher_.Finish(FinishReason::kLength);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices/0/message/reasoning_content"), R"("in a manner")");
  EXPECT_EQ(At(body, "/choices/0/message/content"), R"("of speaking, no ")");
  EXPECT_EQ(At(body, "/choices/0/finish_reason"), R"("stop")");
  EXPECT_EQ(At(body, "/choices/0/stop_reason"), R"("manner")");
}

TEST_F(CallsTest, StopStringsDoNotEndAnAnswerInsideACallOrItsMarkers) {
  const auto responder = Ask(R"("stop":["tool_call","think","x1"],"stream":true)");
  Write("<think>a</think>b<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"x1\"}}</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(Joined(Parts(*responder, "/choices/0/delta/content")), "b");
  EXPECT_EQ(Joined(Parts(*responder, "/choices/0/delta/tool_calls/0/function/arguments")), R"({\"a\": \"x1\"})");
}

TEST_F(CallsTest, AStopStringDoesNotReachOverReasoningOrACall) {
  const auto responder = Ask(R"("stop":["one two"])");
  Write("<think>one</think> two one<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call> two");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), R"(" two one two")");
  EXPECT_EQ(At(responder->response->body, "/choices/0/finish_reason"), R"("tool_calls")");
}

TEST_F(CallsTest, ReasoningThatStaysInTheContentIsStopped) {
  const auto responder = Ask(R"("stop":["manner"],"separate_reasoning":false)");
  Write("<think>in a manner");
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), R"("<think>in a ")");
}

TEST_F(CallsTest, ForcedCallsAskForTheFormOfTheFamily) {
  Ask(R"("tool_choice":"required")");
  const auto& constraint = dispatcher_.specs.at(0).generate.constraint;
  ASSERT_TRUE(constraint.has_value());
  EXPECT_EQ(constraint->kind, wire::ConstraintKind::kStructuralTag);
  EXPECT_THAT(constraint->text, HasSubstr("<tool_call>"));
  EXPECT_THAT(constraint->text, HasSubstr("</think>"));
}

TEST_F(CallsTest, ForcedCallsOfFamiliesWithoutASyntaxAreAList) {
  ServeTemplate("<arg_key>");
  const auto responder = Ask(R"("tool_choice":"required","stream":false)");
  EXPECT_EQ(dispatcher_.specs.at(0).generate.constraint->kind, wire::ConstraintKind::kJsonSchema);
  Write(R"([{"name": "add", "arguments": {"a": 1}}])");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/tool_calls/0/function/name"), "\"add\"");
}

// ---- one call, where the request wants no more ----

constexpr std::string_view kTwoCalls =
    "I add.<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>";

TEST_F(CallsTest, AnAnswerEndsBehindItsOnlyCall) {
  for (const bool is_streamed : {false, true}) {
    dispatcher_.cancelled.clear();
    const auto responder = Ask(fmt::format(R"("stream":{},"parallel_tool_calls":false)", is_streamed));
    Write(kTwoCalls);
    const std::string where = is_streamed ? "/choices/0/delta" : "/choices/0/message";
    const std::vector<std::string> all = is_streamed ? Events(*responder) : std::vector{responder->response->body};
    std::string names;
    std::string arguments;
    std::string reason;
    for (const std::string& event : all) {
      names += At(event, where + "/tool_calls/0/function/name");
      arguments += At(event, where + "/tool_calls/0/function/arguments");
      if (const std::string each = At(event, "/choices/0/finish_reason"); each != "null") reason += each;
      EXPECT_EQ(At(event, where + "/tool_calls/1"), "");
    }
    EXPECT_EQ(names, "\"add\"") << is_streamed;
    EXPECT_THAT(arguments, Not(HasSubstr("2"))) << is_streamed;
    EXPECT_EQ(reason, "\"tool_calls\"") << is_streamed;
    EXPECT_THAT(dispatcher_.cancelled, SizeIs(1)) << "the worker need not go on";
  }
}

TEST_F(CallsTest, AnthropicsWordForItDoesTheSame) {
  const auto responder = ApiTest::Ask(
      "POST", "/v1/messages",
      R"({"model":"bytes","max_tokens":150,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"add",)"
      R"("input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}})");
  dispatcher_.Dispatch(0);
  Write(kTwoCalls);
  EXPECT_EQ(At(responder->response->body, "/content/1/input"), R"({"a":1})");
  EXPECT_EQ(At(responder->response->body, "/content/2"), "");
  EXPECT_EQ(At(responder->response->body, "/stop_reason"), R"("tool_use")");
}

TEST_F(CallsTest, NumbersOfACallKeepTheirTextAndSchemasMayHaveAny) {
  const std::string arguments = R"({"a": [9223372036854775808, 18446744073709551616, 0.12345678901234567891]})";
  const auto responder = ApiTest::Ask(
      "POST", "/v1/messages",
      R"({"model":"bytes","max_tokens":150,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"add",)"
      R"("input_schema":{"type":"object","properties":{"a":{"maximum":18446744073709551615}}}}]})");
  dispatcher_.Dispatch(0);
  Write("<tool_call>\n{\"name\": \"add\", \"arguments\": " + arguments + "}\n</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  ASSERT_TRUE(responder->response);
  EXPECT_THAT(responder->response->body, HasSubstr(R"("input":)" + arguments));
}

// ---- a form of the answer beside calls and reasoning ----

constexpr std::string_view kForms[] = {R"("response_format":{"type":"json_object"})",
                                       R"("guided_json":{"type":"object","properties":{"a":{"type":"integer"}}})",
                                       R"("guided_regex":"[0-9]{5}")",
                                       R"("guided_choice":["yes","no \"\n"])",
                                       R"("guided_grammar":"root ::= \"x\"")",
                                       R"("guided_grammar":"start: \"x\"")"};

TEST_F(CallsTest, AJsonFormOfTheAnswerLeavesCallsPossible) {
  for (const std::string_view form : kForms) {
    dispatcher_.specs.clear();
    Ask(fmt::format(R"("stream":false,{})", form));
    ASSERT_THAT(dispatcher_.specs, SizeIs(1)) << form;
    const wire::Constraint& constraint = dispatcher_.specs[0].generate.constraint.value();
    const bool is_json = form == kForms[0] || form == kForms[1];
    EXPECT_EQ(constraint.kind == wire::ConstraintKind::kStructuralTag, is_json) << form;
    EXPECT_EQ(constraint.text.find("<tool_call>") != std::string::npos, is_json) << form;
    EXPECT_EQ(constraint.field, form.substr(1, form.find('"', 1) - 1));
  }
  dispatcher_.specs.clear();
  Ask(fmt::format(R"("tool_choice":"none",{})", kForms[0]));
  EXPECT_EQ(dispatcher_.specs.at(0).generate.constraint->kind, wire::ConstraintKind::kJson);
}

TEST_F(CallsTest, AFormOfTheAnswerStandsBehindReasoningThatThePromptHasBegun) {
  ServedModel model = ByteModel();
  model.chat_template =
      ChatTemplate::Parse("{% for m in messages %}{{ m.content }}{% endfor %}<think>", "test template").value();
  Serve(std::move(model));
  for (const std::string_view form : kForms) {
    dispatcher_.specs.clear();
    const auto responder =
        Chat(fmt::format(R"({{"model":"bytes","messages":[{{"role":"user","content":"q"}}],{}}})", form));
    ASSERT_THAT(dispatcher_.specs, SizeIs(1)) << form << responder->response->body;
    EXPECT_THAT(dispatcher_.specs[0].generate.constraint->text, HasSubstr("</think>")) << form;
    dispatcher_.Dispatch(0);
    Write("so\n</think>\n\n{}");
    dispatcher_.Finish(FinishReason::kStop);
    EXPECT_EQ(At(responder->response->body, "/choices/0/message/content"), R"("{}")");
  }
}

TEST_F(CallsTest, StrictFunctionsConstrainTheirCallsAlone) {
  std::string strict(kTool);
  strict.insert(strict.find("\"name\""), "\"strict\":true,");
  Ask(R"("stream":false)", strict);
  ASSERT_TRUE(dispatcher_.specs.at(0).generate.constraint.has_value());
  EXPECT_THAT(dispatcher_.specs.at(0).generate.constraint->text, HasSubstr("triggered_tags"));
  Ask(R"("stream":false)");
  EXPECT_FALSE(dispatcher_.specs.at(1).generate.constraint.has_value());
}

TEST_F(CallsTest, StrictFunctionsRefuseWhatNoFormCanExpress) {
  const auto responder = Ask(R"("stream":false)", R"({"type":"function","function":{"name":"f","strict":true,)"
                                                  R"("parameters":{"type":"object","not":{}}}})");
  EXPECT_EQ(responder->response->status, 400);
  EXPECT_EQ(At(responder->response->body, "/error/param"), "\"tools\"");
  EXPECT_THAT(dispatcher_.specs, IsEmpty());
}

}  // namespace
}  // namespace roost::router

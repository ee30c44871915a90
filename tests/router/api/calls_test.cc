// Tool calls and reasoning as clients of the chat API see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/router/api/calls_fixture.h"

namespace roost::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

TEST_F(CallsTest, BrokenArgumentsAreTextInAWholeAnswer) {
  const auto responder = Ask(R"("stream":false)");
  Write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\" 1}}</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices/0/message/tool_calls"), "");
  EXPECT_THAT(At(body, "/choices/0/message/content"), HasSubstr("<tool_call>"));
  EXPECT_EQ(At(body, "/choices/0/finish_reason"), "\"stop\"");
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
  const auto& constraint = dispatcher_.specs.at(0).constraint;
  ASSERT_TRUE(constraint.has_value());
  EXPECT_EQ(constraint->kind, wire::ConstraintKind::kStructuralTag);
  EXPECT_THAT(constraint->text, HasSubstr("<tool_call>"));
  EXPECT_THAT(constraint->text, HasSubstr("</think>"));
}

TEST_F(CallsTest, ForcedCallsOfFamiliesWithoutASyntaxAreAList) {
  ServeTemplate("<arg_key>");
  const auto responder = Ask(R"("tool_choice":"required","stream":false)");
  EXPECT_EQ(dispatcher_.specs.at(0).constraint->kind, wire::ConstraintKind::kJsonSchema);
  Write(R"([{"name": "add", "arguments": {"a": 1}}])");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/tool_calls/0/function/name"), "\"add\"");
}

TEST_F(CallsTest, StrictFunctionsConstrainTheirCallsAlone) {
  std::string strict(kTool);
  strict.insert(strict.find("\"name\""), "\"strict\":true,");
  Ask(R"("stream":false)", strict);
  ASSERT_TRUE(dispatcher_.specs.at(0).constraint.has_value());
  EXPECT_THAT(dispatcher_.specs.at(0).constraint->text, HasSubstr("triggered_tags"));
  Ask(R"("stream":false)");
  EXPECT_FALSE(dispatcher_.specs.at(1).constraint.has_value());
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

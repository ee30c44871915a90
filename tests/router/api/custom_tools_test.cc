// Custom tools, whose calls hold a text, and choices that allow some of the tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/api/json_object.h"
#include "router/api/tool_parsers/tool_names.h"
#include "tests/router/api/calls_fixture.h"

namespace roost::router {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using wire::FinishReason;

constexpr std::string_view kNote = R"({"type":"custom","custom":{"name":"note","description":"keeps a note"}})";
constexpr std::string_view kPatch =
    R"({"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark",)"
    R"("definition":"start: \"+\" /[a-z]+/"}}}})";
constexpr std::string_view kZip =
    R"({"type":"custom","custom":{"name":"zip","format":{"type":"grammar","grammar":{"syntax":"regex",)"
    R"("definition":"^[0-9]{5}$"}}}})";
// Shows tools and calls, and has the markers of Hermes.
constexpr std::string_view kShown =
    "{{ tools | tojson }}{% for m in messages %}{{ m.content or '' }}{{ (m.tool_calls or []) | tojson }}{% endfor %}"
    "{# <tool_call> #}";

class CustomToolsTest : public CallsTest {
 protected:
  void ServeShown(std::string_view source = kShown) {
    ServedModel model = ByteModel();
    model.max_context_tokens = 8000;
    model.chat_template = std::move(ChatTemplate::Parse(source, "shown").value());
    Serve(std::move(model));
  }
  std::shared_ptr<FakeResponder> Respond(std::string body) {
    return ApiTest::Ask("POST", "/v1/responses", std::move(body));
  }
  static std::string PromptOf(const GenerateSpec& spec) {
    return spec.model->tokenizer->Decode(spec.generate.prompt, SpecialTokenOutput::kShow);
  }
  // The constraint of the last request; empty without one.
  std::string Constraint() const {
    return dispatcher_.specs.empty() || !dispatcher_.specs.back().generate.constraint
               ? ""
               : dispatcher_.specs.back().generate.constraint->text;
  }
  // The texts of a stream's events at `pointer`, as one.
  static std::string TextAt(const FakeResponder& responder, std::string_view pointer,
                            std::string_view event_type = "") {
    std::string all;
    for (std::string_view rest = responder.frames; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (!line.starts_with("data: {")) continue;
      const std::string event(line.substr(6));
      if (!event_type.empty() && At(event, "/type") != fmt::format("\"{}\"", event_type)) continue;
      const std::string part = At(event, pointer);
      if (part.empty()) continue;
      JsonBody json(fmt::format(R"({{"text":{}}})", part));
      const Result<JsonObject> object = json.Parse();
      all += object.value().String("text").value().value_or("");
    }
    return all;
  }
  std::string Param(std::string_view tools, std::string_view members = R"("stream":false)") {
    const auto responder = Ask(members, tools);
    return responder->response && responder->response->status == 400 ? At(responder->response->body, "/error/param")
                                                                     : "";
  }
};

TEST_F(CustomToolsTest, ACallHoldsItsText) {
  const auto responder = Ask(R"("stream":false)", kNote);
  Write("<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"say \\\"x\\\"\\n\"}}\n</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  const std::string& body = responder->response->body;
  EXPECT_EQ(At(body, "/choices/0/finish_reason"), R"("tool_calls")");
  EXPECT_EQ(At(body, "/choices/0/message/tool_calls/0/type"), R"("custom")");
  EXPECT_EQ(At(body, "/choices/0/message/tool_calls/0/custom"), R"({"name":"note","input":"say \"x\"\n"})");
  EXPECT_EQ(At(body, "/choices/0/message/tool_calls/0/function"), "");
}

TEST_F(CustomToolsTest, AStreamsTextStandsBesideOtherCalls) {
  const auto responder = Ask(R"("stream":true)", fmt::format("{},{}", kNote, kTool));
  Write(
      "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"one\\ntwo\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"three\"}}\n</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_THAT(Parts(*responder, "/choices/0/delta/tool_calls/0/custom/name"), ElementsAre("\"note\"", "\"note\""));
  std::vector<std::string> texts(3);
  for (const std::string& event : Events(*responder)) {
    for (int i = 0; i < 2; ++i) {
      const std::string call = At(event, fmt::format("/choices/0/delta/tool_calls/{}", i));
      if (call.empty()) continue;
      const std::string index = At(call, "/index");
      const std::string text = At(call, index == "1" ? "/function/arguments" : "/custom/input");
      if (!text.empty()) texts.at(static_cast<std::size_t>(index[0] - '0')) += text.substr(1, text.size() - 2);
    }
  }
  EXPECT_THAT(texts, ElementsAre("one\\ntwo", R"({\"a\": 1})", "three"));
}

// ---- a stream's text ----

constexpr std::string_view kEscaped = R"(a \"quote\" \\ \/\u00e9\ud83d\ude00\ud83d\tä}\n*** End)";
constexpr std::string_view kUnescaped = "a \"quote\" \\ /é😀\uFFFD\tä}\n*** End";

TEST_F(CustomToolsTest, AStreamsTextIsTheSameWhateverTheBordersOfItsPieces) {
  const std::string call =
      fmt::format("<tool_call>{{\"name\": \"note\", \"arguments\": {{ \"input\" :\"{}\"}}}}</tool_call>", kEscaped);
  for (std::size_t size = 1; size <= call.size(); size += size < 16 ? 1 : 40) {
    for (const bool is_chat : {true, false}) {
      const auto responder =
          is_chat ? Ask(R"("stream":true)", kNote)
                  : Respond(R"({"model":"bytes","stream":true,"input":"q","tools":[{"type":"custom","name":"note"}]})");
      if (!is_chat) dispatcher_.Dispatch(0);
      for (std::size_t i = 0; i < call.size(); i += size) dispatcher_.Produce(Bytes(call.substr(i, size)));
      dispatcher_.Finish(FinishReason::kStop);
      if (is_chat) {
        EXPECT_EQ(TextAt(*responder, "/choices/0/delta/tool_calls/0/custom/input"), kUnescaped) << size;
        continue;
      }
      constexpr std::string_view kName = "response.custom_tool_call_input.";
      EXPECT_EQ(TextAt(*responder, "/delta", fmt::format("{}delta", kName)), kUnescaped) << size;
      EXPECT_EQ(TextAt(*responder, "/input", fmt::format("{}done", kName)), kUnescaped) << size;
      EXPECT_EQ(TextAt(*responder, "/response/output/0/input", "response.completed"), kUnescaped) << size;
    }
  }
}

TEST_F(CustomToolsTest, AStreamTellsATextAsItComes) {
  const auto responder = Ask(R"("stream":true)", kNote);
  Write("<tool_call>{\"name\": \"note\", \"arguments\": {\"input\": \"first part, ");
  EXPECT_THAT(TextAt(*responder, "/choices/0/delta/tool_calls/0/custom/input"), HasSubstr("first"));
  Write("cut \\u00");
  dispatcher_.Finish(FinishReason::kLength);
  EXPECT_EQ(TextAt(*responder, "/choices/0/delta/tool_calls/0/custom/input"), "first part, cut ");
}

TEST_F(CustomToolsTest, OtherArgumentsAreTheTextAsTheyAre) {
  for (const std::string_view arguments : {R"({})", R"({"patch":"x"})", R"({"input":5})"}) {
    const auto responder = Ask(R"("stream":true)", kNote);
    Write(fmt::format("<tool_call>{{\"name\": \"note\", \"arguments\": {}}}</tool_call>", arguments));
    dispatcher_.Finish(FinishReason::kStop);
    EXPECT_EQ(TextAt(*responder, "/choices/0/delta/tool_calls/0/custom/input"), arguments);
  }
  EXPECT_EQ(CustomInputOf(R"({"other":1,"input":"a"})"), "a");
  EXPECT_EQ(CustomInputOf(R"({"input":"a\qb"})"), "a\\qb") << "no escape of JSON";
  EXPECT_EQ(CustomInputOf(R"({"inp)"), "") << "nothing of the text has come";
}

TEST_F(CustomToolsTest, TheModelSeesAFunctionOfOneTextAndItsEarlierCalls) {
  ServeShown();
  Chat(fmt::format(
      R"({{"model":"bytes","tools":[{},{},{}],"messages":[{{"role":"user","content":"q"}},{{"role":"assistant",)"
      R"("content":null,"tool_calls":[{{"id":"c1","type":"custom","custom":{{"name":"note","input":"a\nb"}}}}]}},)"
      R"({{"role":"tool","tool_call_id":"c1","content":"kept"}}]}})",
      kNote, kPatch, kZip));
  ASSERT_THAT(dispatcher_.specs, SizeIs(1));
  const std::string text = PromptOf(dispatcher_.specs[0]);
  EXPECT_THAT(text, HasSubstr(R"("name": "note", "description": "keeps a note")"));
  EXPECT_THAT(text, HasSubstr(R"("pattern": "^[0-9]{5}$")"));
  EXPECT_THAT(text, HasSubstr("A text of this grammar (Lark)"));
  EXPECT_THAT(text, HasSubstr(R"("function": {"name": "note", "arguments": {"input": "a\nb"}})"));
  EXPECT_THAT(text, Not(HasSubstr("\"custom\"")));
}

TEST_F(CustomToolsTest, AGrammarIsHeldToWithoutBeingForced) {
  Ask(R"("stream":false)", kNote);
  EXPECT_EQ(Constraint(), "");
  Ask(R"("stream":false)", kPatch);
  EXPECT_THAT(Constraint(), AllOf(HasSubstr("triggered_tags"), HasSubstr(R"({\"input\": \")"),
                                  HasSubstr(R"("place":"json_string","lark":"start: \"+\" /[a-z]+/")")));
  Ask(R"("stream":false)", kZip);
  EXPECT_THAT(Constraint(), HasSubstr(R"("regex":"^[0-9]{5}$")"));
}

TEST_F(CustomToolsTest, InXmlTheTextStandsAsItIs) {
  for (const std::string_view sign : {"<function=", "<arg_key>"}) {
    ServeTemplate(sign);
    Ask(R"("stream":false)", fmt::format("{},{}", kPatch, kTool));
    EXPECT_THAT(Constraint(), AllOf(HasSubstr("triggered_tags"), HasSubstr(R"("place":"text","lark")"))) << sign;
    Ask(R"("stream":false)", kTool);
    EXPECT_EQ(Constraint(), "") << sign;
  }
}

TEST_F(CustomToolsTest, ForcedCallsInAListHoldToTheGrammar) {
  ServeTemplate("<arg_key>");
  const auto responder = Ask(R"("stream":false,"tool_choice":{"type":"custom","custom":{"name":"patch"}})",
                             fmt::format("{},{}", kPatch, kTool));
  EXPECT_THAT(Constraint(), AllOf(HasSubstr(R"("place":"json_string","lark")"), Not(HasSubstr(R"(add\")"))));
  Write(R"([{"name": "patch", "arguments": {"input": "+a"}}])");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/choices/0/message/tool_calls/0/custom/input"), R"("+a")");
}

TEST_F(CustomToolsTest, WhereNoFormHoldsToAGrammarItIsRefused) {
  ServeTemplate("<|tool_list_start|>");
  EXPECT_EQ(Param(kPatch), R"("tools")");
  EXPECT_EQ(Param(kNote), "");
  EXPECT_EQ(Param(kPatch, R"("stream":false,"tool_choice":"required")"), "");
}

TEST_F(CustomToolsTest, ErrorsNameThePlace) {
  const auto tool = [](std::string_view format) {
    return fmt::format(R"({{"type":"custom","custom":{{"name":"t","format":{}}}}})", format);
  };
  EXPECT_EQ(Param(R"({"type":"custom"})"), R"("tools[0].custom")");
  EXPECT_EQ(Param(R"({"type":"custom","custom":{}})"), R"("tools[0].custom.name")");
  EXPECT_EQ(Param(R"({"type":"web_search"})"), R"("tools[0].type")");
  EXPECT_EQ(Param(tool(R"({"type":"json"})")), R"("tools[0].custom.format.type")");
  EXPECT_EQ(Param(tool(R"({"type":"grammar"})")), R"("tools[0].custom.format.grammar")");
  EXPECT_EQ(Param(tool(R"({"type":"grammar","grammar":{"syntax":"gbnf","definition":"x"}})")),
            R"("tools[0].custom.format.grammar.syntax")");
  for (const std::string_view syntax : {"lark", "regex"}) {
    EXPECT_EQ(Param(tool(fmt::format(R"({{"type":"grammar","grammar":{{"syntax":"{}","definition":"(a"}}}})", syntax))),
              R"("tools[0].custom.format.grammar.definition")");
  }
  const auto responses = Respond(
      R"({"model":"bytes","input":"q","tools":[{"type":"custom","name":"t","format":{"type":"grammar","syntax":"lark",)"
      R"("definition":"start: other"}}]})");
  EXPECT_EQ(At(responses->response->body, "/error/param"), R"("tools[0].format.definition")");
}

// ---- allowed tools ----

std::string Allowed(std::string_view mode, std::string_view tools) {
  return fmt::format(
      R"("stream":false,"tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"{}","tools":[{}]}}}})", mode,
      tools);
}
constexpr std::string_view kOnlyNote = R"({"type":"custom","custom":{"name":"note"}})";

TEST_F(CustomToolsTest, ToolsThatAreNotAllowedStayInThePromptAndAreNotCalled) {
  ServeShown();
  const std::string tools = fmt::format("{},{}", kNote, kTool);
  Ask(R"("stream":false)", tools);
  const std::string prompt = PromptOf(dispatcher_.specs.back());
  Ask(Allowed("auto", kOnlyNote), tools);
  EXPECT_EQ(PromptOf(dispatcher_.specs.back()), prompt) << "the cache has its beginning";
  EXPECT_THAT(Constraint(), AllOf(HasSubstr("triggered_tags"), HasSubstr("note"), Not(HasSubstr(R"(add\")"))));
  Ask(Allowed("required", kOnlyNote), tools);
  EXPECT_THAT(Constraint(), AllOf(Not(HasSubstr("triggered_tags")), HasSubstr("note"), Not(HasSubstr(R"(add\")"))));
  Ask(Allowed("auto", fmt::format("{},{}", kOnlyNote, R"({"type":"function","function":{"name":"add"}})")), tools);
  EXPECT_EQ(Constraint(), "") << "all of them";
}

TEST_F(CustomToolsTest, AModelWhoseCallsNothingLimitsSeesAllowedToolsAlone) {
  ServeShown("{{ tools | tojson }}{# <|tool_list_start|> #}");
  Ask(Allowed("auto", kOnlyNote), fmt::format("{},{}", kNote, kTool));
  EXPECT_THAT(PromptOf(dispatcher_.specs.back()), AllOf(HasSubstr("note"), Not(HasSubstr("\"add\""))));
}

TEST_F(CustomToolsTest, AllowedToolsAreAmongTheTools) {
  const auto param = [this](std::string_view mode, std::string_view tools) {
    return Param(kNote, Allowed(mode, tools));
  };
  EXPECT_EQ(param("auto", R"({"type":"function","function":{"name":"other"}})"),
            R"("tool_choice.allowed_tools.tools[0].function.name")");
  EXPECT_EQ(param("auto", ""), R"("tool_choice.allowed_tools.tools")");
  EXPECT_EQ(param("any", kOnlyNote), R"("tool_choice.allowed_tools.mode")");
  EXPECT_EQ(Param(kNote, R"("tool_choice":{"type":"allowed_tools"})"), R"("tool_choice.allowed_tools")");
}

TEST_F(CustomToolsTest, ResponsesHaveAllowedToolsToo) {
  ServeShown();
  const auto ask = [this](std::string_view name) {
    return Respond(fmt::format(
        R"({{"model":"bytes","input":"q","tools":[{{"type":"custom","name":"note"}},{{"type":"function","name":"add"}}],)"
        R"("tool_choice":{{"type":"allowed_tools","mode":"required","tools":[{{"type":"function","name":"{}"}}]}}}})",
        name));
  };
  ask("add");
  ASSERT_THAT(dispatcher_.specs, SizeIs(1));
  EXPECT_THAT(Constraint(), AllOf(HasSubstr("add"), Not(HasSubstr("note"))));
  EXPECT_EQ(At(ask("other")->response->body, "/error/param"), R"("tool_choice.tools[0].name")");
}

// ---- tools within the input ----

TEST_F(CustomToolsTest, ToolsWithinTheInputAreToolsOfTheRequest) {
  ServeShown();
  const auto responder =
      Respond(R"({"model":"bytes","tools":[{"type":"function","name":"add"}],"input":[{"type":"additional_tools",)"
              R"("role":"developer","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"add"},)"
              R"({"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn"}]}]},)"
              R"({"role":"user","content":"q"}]})");
  ASSERT_THAT(dispatcher_.specs, SizeIs(1));
  const std::string text = PromptOf(dispatcher_.specs[0]);
  EXPECT_THAT(text, AllOf(HasSubstr("\"exec\""), HasSubstr("\"agents__spawn\"")));
  EXPECT_EQ(text.find("\"add\""), text.rfind("\"add\"")) << "a tool is sent once";
  dispatcher_.Dispatch(0);
  Write("<tool_call>\n{\"name\": \"exec\", \"arguments\": {\"input\": \"1 + 1\"}}\n</tool_call>");
  dispatcher_.Finish(FinishReason::kStop);
  EXPECT_EQ(At(responder->response->body, "/output/0/type"), R"("custom_tool_call")");
  EXPECT_EQ(At(responder->response->body, "/output/0/input"), R"("1 + 1")");
  const auto refused =
      Respond(R"({"model":"bytes","input":[{"role":"user","content":"q"},{"type":"additional_tools","tools":[)"
              R"({"type":"web_search"}]}]})");
  EXPECT_EQ(At(refused->response->body, "/error/param"), R"("input[1].tools[0].type")");
}

}  // namespace
}  // namespace roost::router

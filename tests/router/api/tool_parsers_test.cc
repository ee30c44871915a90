// Families of models: their output becomes content, reasoning and calls, however it is cut into pieces.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/api/requests/tool_request.h"
#include "router/api/tool_parsers/argument_value.h"
#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/output_parser.h"
#include "tests/router/api/tool_outputs.h"

namespace roost::router {
namespace {

TEST(ToolParsersTest, HermesCallsWithTextBeforeThem) {
  EXPECT_EQ(Parsed(ToolFamily::kHermes,
                   "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\", "
                   "\"x\": [1, {\"}\": \"\\\"\\u00e9\"}]}}\n</tool_call>\n<tool_call>\n"
                   "{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"),
            "|Let me look.|get_weather{\"city\": \"Köln\", \"x\": [1, {\"}\": \"\\\"\\u00e9\"}]} add{} ");
}

TEST(ToolParsersTest, BrokenHermesCallsAreText) {
  for (const std::string_view text : {"<tool_call>", "<tool_call>{\"name\": \"f\"", "<tool_call>none</tool_call>",
                                      "<tool_call>{\"name\": 1}</tool_call>", "a <tool_call> b </tool_call> c",
                                      "<tool_call>{\"arguments\": {}}</tool_call>", "x <tool_cal"}) {
    EXPECT_EQ(Parsed(ToolFamily::kHermes, text), "|" + std::string(text) + "|");
  }
}

TEST(ToolParsersTest, ACallThatTheEndCutsKeepsWhatItHas) {
  EXPECT_EQ(Parsed(ToolFamily::kHermes, "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"b"),
            "||add{\"a\": \"b ");
  EXPECT_EQ(Parsed(ToolFamily::kHermes, "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool"),
            "||add{\"a\": 1} ");
}

TEST(ToolParsersTest, TextAfterABrokenEndIsKept) {
  EXPECT_EQ(Parsed(ToolFamily::kHermes, "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}} and more"),
            "| and more|add{\"a\": 1} ");
}

TEST(ToolParsersTest, HermesCallsInAList) {
  const std::string call = R"({"name": "add", "arguments": {}})";
  EXPECT_EQ(Parsed(ToolFamily::kHermes, "<tool_call>[" + call + ", " + call + "]</tool_call>x"), "|x|add{} add{} ");
}

TEST(ToolParsersTest, ACallAfterABrokenListIsRead) {
  const std::string call = R"({"name": "add", "arguments": {}})";
  for (const std::string& next : {call, "[" + call + "]"}) {
    EXPECT_EQ(Parsed(ToolFamily::kHermes, "<tool_call>[" + call + " x<tool_call>" + next + "</tool_call>"),
              "| x|add{} add{} ");
  }
}

TEST(ToolParsersTest, SpaceInACallMayReachItsLimitHoweverItIsCut) {
  constexpr std::size_t kMaxHeadBytes = 4096;
  const FamilyOutputOptions options = OptionsFor(ToolFamily::kHermes);
  for (const std::size_t size : {kMaxHeadBytes - 40, kMaxHeadBytes + 40}) {
    const std::string space(size, ' ');
    const std::string begin = "<tool_call>[{\"name\": \"add\", " + space;
    const std::string call = "<tool_call>[{\"name\": \"add\", \"arguments\": {}}]";
    const bool is_read = size < kMaxHeadBytes;
    EXPECT_EQ(ParsedInBytes(options, begin + "\"arguments\": {}}]</tool_call>" + call),
              is_read ? "||add{} add{} " : "|" + begin + "\"arguments\": {}}]</tool_call>|add{} ");
    EXPECT_EQ(ParsedInBytes(options, call + space + "x"), "|" + space + "x|add{} ");
    EXPECT_EQ(ParsedInBytes(options, call + space + "</tool_call>x"), is_read ? "|x|add{} " : "|" + space + "x|add{} ");
  }
}

TEST(ToolParsersTest, LlamaCallsHaveNoMarkersButKnownNames) {
  EXPECT_EQ(Parsed(ToolFamily::kLlama,
                   "{\"name\": \"add\", \"parameters\": {\"a\": 1}}; {\"name\": \"add\", "
                   "\"parameters\": {\"a\": 2}}"),
            "||add{\"a\": 1} add{\"a\": 2} ");
  EXPECT_EQ(Parsed(ToolFamily::kLlama, "<|python_tag|>{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}"),
            "||add{} ");
  const std::string json = R"({"name": "Bob", "parameters": {"a": 1}})";
  EXPECT_EQ(Parsed(ToolFamily::kLlama, json), "|" + json + "|");
  EXPECT_EQ(Parsed(ToolFamily::kLlama, "{\"a\": 1}"), "|{\"a\": 1}|");
}

TEST(ToolParsersTest, PythonicCallsBecomeJson) {
  EXPECT_EQ(
      Parsed(ToolFamily::kPythonic, "[get_weather(city='K\\'\\u00f6ln', n=[1, -2.5, None], d={'a': True}), add()]"),
      "||get_weather{\"city\":\"K'öln\",\"n\":[1,-2.5,null],\"d\":{\"a\":true}} add{} ");
  EXPECT_EQ(Parsed(ToolFamily::kPythonic, "Yes.<|tool_call_start|>[add(a=1)]<|tool_call_end|>"), "|Yes.|add{\"a\":1} ");
  for (const std::string_view text : {"[1, 2]", "[add(a=]", "[add(1)]", "[other()]", "[add(a=1)", "[add(a=x)]"}) {
    EXPECT_EQ(Parsed(ToolFamily::kPythonic, text), "|" + std::string(text) + "|");
  }
}

TEST(ToolParsersTest, MistralListsAndNamedArguments) {
  EXPECT_EQ(Parsed(ToolFamily::kMistral,
                   "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}, \"id\": \"123456789\"}"
                   ", {\"name\": \"add\", \"arguments\": {}}]"),
            "||add{\"a\": 1} add{} ");
  EXPECT_EQ(Parsed(ToolFamily::kMistral, "Hm[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]add[CALL_ID]x[ARGS]{}"),
            "|Hm|add{\"a\": 1} add{} ");
}

TEST(ToolParsersTest, DeepSeekInBothForms) {
  EXPECT_EQ(
      Parsed(ToolFamily::kDeepSeek,
             "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1}\n```"
             "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
      "||add{\"a\": 1} add{} ");
}

TEST(ToolParsersTest, KimiGraniteGlmAndQwenXml) {
  EXPECT_EQ(
      Parsed(ToolFamily::kKimi,
             "Ok <|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": 1}"
             "<|tool_call_end|><|tool_calls_section_end|>"),
      "|Ok|add{\"a\": 1} ");
  EXPECT_EQ(Parsed(ToolFamily::kGranite, "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]"),
            "||add{\"a\": 1} ");
  EXPECT_EQ(Parsed(ToolFamily::kGlm,
                   "Ok\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n"
                   "<arg_key>n</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>"),
            "|Ok|get_weather{\"city\":\"12\",\"n\":[1,2]} ");
  EXPECT_EQ(Parsed(ToolFamily::kQwenXml,
                   "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx "
                   "y\n</parameter>\n</function>\n</tool_call>"),
            "||add{\"a\":1,\"b\":\"x y\"} ");
}

// The value is what the parameter's schema allows, strings first.
TEST(ToolParsersTest, ArgumentsWithoutQuotesAreReadByTheirSchema) {
  struct ArgumentCase {
    std::string schema;
    std::string text;
    std::string json;
  };
  const std::vector<ArgumentCase> cases{
      {R"({"type":"string"})", "12345", R"("12345")"},
      {R"({"type":"string"})", "null", R"("null")"},
      {R"({"type":"integer"})", "12345", "12345"},
      {R"({"type":"integer"})", "many", R"("many")"},
      {R"({"type":"integer"})", "12.5", R"("12.5")"},
      {R"({"type":"integer"})", "1e-1", R"("1e-1")"},
      {R"({"type":"integer"})", "12.0", "12.0"},
      {R"({"type":"integer"})", "-9223372036854775808", "-9223372036854775808"},
      {R"({"type":"integer"})", "18446744073709551616", "18446744073709551616"},
      {R"({"type":"integer","maximum":18446744073709551616})", "9223372036854775808", "9223372036854775808"},
      {R"({"type":"number"})", "0.12345678901234567891", "0.12345678901234567891"},
      {R"({"enum":[18446744073709551616]})", "18446744073709551616", "18446744073709551616"},
      {R"({"type":"integer"})", "true", R"("true")"},
      {R"({"type":"integer"})", "null", R"("null")"},
      {R"({"type":"integer"})", "[1]", R"("[1]")"},
      {R"({"type":"integer"})", R"("a")", R"("\"a\"")"},
      {R"({"type":"number"})", "12.5", "12.5"},
      {R"({"type":"number"})", "12", "12"},
      {R"({"type":"number"})", "{}", R"("{}")"},
      {R"({"type":["integer","number"]})", "12.5", "12.5"},
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "12.5", R"("12.5")"},
      {R"({"anyOf":[{"type":"integer"},{"type":"array"}]})", "[12.5]", "[12.5]"},
      {R"({"enum":[1,2.5]})", "2.5", "2.5"},
      {R"({"enum":[1,2.5]})", "true", R"("true")"},
      {R"({"enum":[{"a":1},null]})", R"({"a":1})", R"({"a":1})"},
      {R"({"type":"boolean"})", "7", R"("7")"},
      {R"({"type":"null"})", "7", R"("7")"},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}],"default":null})", "12345", R"("12345")"},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}],"default":null})", "null", "null"},
      {R"({"type":["string","null"]})", "true", R"("true")"},
      {R"({"type":"string","nullable":true})", "null", "null"},
      {R"({"type":["integer","string"]})", "7", R"("7")"},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", "7", R"("7")"},
      {R"({"allOf":[{"$ref":"#/$defs/Size"}]})", "7", R"("7")"},
      {R"({"$ref":"#/$defs/Size"})", "7", R"("7")"},
      {R"({"$ref":"#/$defs/Loop"})", "7", "7"},
      {R"({"enum":["1",2]})", "1", R"("1")"},
      {R"({"enum":["1",2]})", "2", "2"},
      {R"({"const":"1"})", "1", R"("1")"},
      {R"({"enum":["a","b"]})", "7", R"("7")"},
      {R"({"type":"boolean"})", "True", "true"},
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "None", "null"},
      {R"({"type":"object"})", R"({"a": 1})", R"({"a":1})"},
      {R"({"type":"string","anyOf":[{"pattern":"^7"},{"format":"date"}]})", "7", R"("7")"},
      {R"({"type":"string","allOf":[{"minLength":1}]})", "7", R"("7")"},
      {R"({"type":["string","null"],"anyOf":[{"maxLength":9},{"type":"null"}]})", "null", "null"},
      {R"({"pattern":"^[0-9]+$"})", "7", R"("7")"},
      {R"({"anyOf":[{"maxLength":9},{"type":"null"}]})", "7", R"("7")"},
      {R"({"maximum":9})", "7", "7"},
      {R"({})", "7", "7"},
      {R"({})", "True", R"("True")"},
  };
  for (const ArgumentCase& each : cases) {
    const std::string schema =
        R"({"type":"object","properties":{"a":)" + each.schema +
        R"(},"$defs":{"Size":{"enum":["7","8"],"type":"string"},"Loop":{"$ref":"#/$defs/Loop"}}})";
    EXPECT_EQ(ArgumentJson(schema, "a", each.text), each.json) << each.schema << " " << each.text;
    EXPECT_EQ(ArgumentJson(R"({"$defs":{"P":)" + schema + R"(},"$ref":"#/$defs/P"})", "b", "7"), "7");
  }
  EXPECT_EQ(ArgumentJson("", "a", "7"), "7");
  const std::string map = R"({"properties":{"n":{"type":"integer"}},"additionalProperties":{"type":"string"}})";
  EXPECT_EQ(ArgumentJson(map, "a", "7"), R"("7")") << "a name that the schema does not have";
  EXPECT_EQ(ArgumentJson(map, "n", "7"), "7");
  EXPECT_EQ(ArgumentJson(R"({"additionalProperties":false})", "a", "7"), "7");
  EXPECT_EQ(ArgumentJson(R"({"allOf":[{"properties":{"a":{"type":"string"}}}]})", "a", "7"), R"("7")");
}

TEST(ToolParsersTest, HarmonyChannels) {
  EXPECT_EQ(
      Parsed(ToolFamily::kHarmony,
             "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look."
             "<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}"),
      "Hm.|I look.|add{\"a\": 1} ");
  EXPECT_EQ(Parsed(ToolFamily::kHarmony, " to=functions.add<|channel|>commentary json<|message|>{}"), "||add{} ");
  EXPECT_EQ(Parsed(ToolFamily::kHarmony, "<|channel|>final<|message|>Hello"), "|Hello|");
  EXPECT_EQ(Parsed(ToolFamily::kHarmony, "plain text"), "|plain text|");
  EXPECT_EQ(Parsed(ToolFamily::kHarmony, "<|channel|>commentary to=functions.add<|message|>none"), "|none|");
}

TEST(ToolParsersTest, AHarmonyHeaderMayBeAsLongAsItsLimitHoweverItIsCut) {
  constexpr std::size_t kMaxHeaderBytes = 1024;
  for (std::size_t size = kMaxHeaderBytes - 16; size <= kMaxHeaderBytes + 2; ++size) {
    std::string header = "<|channel|>final";
    header.resize(size, '-');
    const std::string expected = size <= kMaxHeaderBytes ? "hi" : header.substr(11) + "<|message|>hi";
    EXPECT_EQ(Parsed(ToolFamily::kHarmony, header + "<|message|>hi"), "|" + expected + "|") << size;
    EXPECT_EQ(Parsed(ToolFamily::kHarmony, "a" + header + "<|message|>hi"), "|a" + expected + "|") << size;
  }
}

TEST(ToolParsersTest, ReasoningIsSetApart) {
  FamilyOutputOptions options = OptionsFor(ToolFamily::kHermes, ReasoningForm::kThink);
  EXPECT_EQ(Parsed(options, "<think>\na <tool_call> b\n</think>\n\nYes"), "a <tool_call> b|Yes|");
  EXPECT_EQ(Parsed(options, "No <think>"), "|No <think>|");
  EXPECT_EQ(Parsed(options, "<think>cut"), "cut||");
  options.reasoning_start = ReasoningStart::kInside;
  EXPECT_EQ(Parsed(options, "a\n</think>\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>"), "a||add{} ");
  options.reasoning_start = ReasoningStart::kNever;
  EXPECT_EQ(Parsed(options, "Yes"), "|Yes|");
}

TEST(ToolParsersTest, ThePromptsTailTellsWhereAnAnswerBegins) {
  const OutputFamily family{ToolFamily::kHermes, ReasoningForm::kThink};
  EXPECT_EQ(ReasoningStartOf(family, "<|im_start|>assistant\n"), ReasoningStart::kOutside);
  EXPECT_EQ(ReasoningStartOf(family, "assistant\n<think>\n"), ReasoningStart::kInside);
  EXPECT_EQ(ReasoningStartOf(family, "assistant\n<think>\n\n</think>\n\n"), ReasoningStart::kNever);
}

TEST(ToolParsersTest, WithoutToolsMarkersAreText) {
  FamilyOutputOptions options = OptionsFor(ToolFamily::kHermes);
  options.tools = std::make_shared<const ToolSet>();
  const std::string text = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(Parsed(options, text), "|" + text + "|");
}

TEST(ToolParsersTest, ForcedCallsAreReadWhateverTheFamily) {
  ToolSet tools = TwoTools();
  tools.use = ToolUse::kRequired;
  FamilyOutputOptions options = OptionsFor(ToolFamily::kHarmony);
  options.tools = std::make_shared<const ToolSet>(tools);
  EXPECT_EQ(Parsed(options, R"([{"name": "add", "arguments": {"a": 1}}, {"name":"add","arguments":{}}])"),
            "||add{\"a\": 1} add{} ");
}

TEST(ToolParsersTest, AForcedCallIsAFormOfTheOutput) {
  ToolSet tools = TwoTools();
  EXPECT_FALSE(ForcedCallConstraint(tools).value().has_value());
  tools.use = ToolUse::kNamed;
  tools.named = "add";
  EXPECT_EQ(ForcedCallConstraint(tools).value()->text,
            R"({"type":"array","minItems":1,"maxItems":1,"items":{"anyOf":[{"type":"object","properties":{)"
            R"("name":{"const":"add"},"arguments":{"$ref":"#/$defs/f0"}},"required":["name","arguments"],)"
            R"("additionalProperties":false}]},"$defs":{"f0":{"type":"object"}}})");
}

// References of a function's schema are relative to that schema, wherever it stands in the constraint.
TEST(ToolParsersTest, ForcedCallsMayHaveSchemasWithReferences) {
  ToolSet tools;
  tools.use = ToolUse::kRequired;
  const char* const cart =
      R"({"$defs":{"Item":{"type":"object","properties":{"qty":{"type":"integer"},"part":{"$ref":"#/$defs/Item"}}}},)"
      R"("type":"object","properties":{"items":{"type":"array","items":{"$ref":"#/$defs/Item"}}},"required":["items"]})";
  const char* const tree = R"({"type":"object","properties":{"left":{"$ref":"#"},"at":{"$ref":"#/properties/left"}}})";
  tools.functions = {{"cart", cart}, {"tree", tree}};
  const auto constraint = ForcedCallConstraint(tools);
  ASSERT_TRUE(constraint.ok()) << constraint.error().ToString();
  EXPECT_THAT((*constraint)->text, testing::HasSubstr(R"("part":{"$ref":"#/$defs/f0/$defs/Item"})"));
  EXPECT_THAT((*constraint)->text, testing::HasSubstr(R"("left":{"$ref":"#/$defs/f1"})"));
  EXPECT_THAT((*constraint)->text, testing::HasSubstr(R"("at":{"$ref":"#/$defs/f1/properties/left"})"));
}

// Streamed pieces can not be taken back; a call that is reported as a whole is either a call or text.
TEST(ToolParsersTest, ACallWithBrokenArgumentsIsTextWhereCallsAreToldWhole) {
  const auto checked = [](ToolFamily family, std::string_view text) {
    FamilyOutputOptions options = OptionsFor(family);
    options.delivery = CallDelivery::kChecked;
    return Parsed(options, text);
  };
  const std::vector<std::pair<ToolFamily, std::string>> broken{
      {ToolFamily::kHermes, R"(<tool_call>{"name": "add", "arguments": {"a": 1,}}</tool_call>)"},
      {ToolFamily::kHermes, R"(<tool_call>{"name": "add", "arguments": {"a": [1}}</tool_call>)"},
      {ToolFamily::kHermes, R"(<tool_call>{"name": "add", "arguments": {"a": 1)"},
      {ToolFamily::kLlama, R"({"name": "add", "parameters": {"a": }})"},
      {ToolFamily::kGranite, R"(<|tool_call|>[{"name": "add", "arguments": {a: 1}}])"},
      {ToolFamily::kMistral, R"([TOOL_CALLS]add[ARGS]{"a" 1})"},
      {ToolFamily::kKimi, R"(<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a"}<|tool_call_end|>)"},
      {ToolFamily::kDeepSeek, R"(<｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a"}<｜tool▁call▁end｜>)"},
      {ToolFamily::kPythonic, "[add(a=nothing)]"},
      {ToolFamily::kGlm, "<tool_call>add<arg_key>a</arg_key></tool_call>"},
      {ToolFamily::kQwenXml, "<tool_call><function=add><parameter=a></function></tool_call>"}};
  for (const auto& [family, text] : broken) EXPECT_EQ(checked(family, text), "|" + text + "|");
  EXPECT_EQ(checked(ToolFamily::kHarmony, R"(<|channel|>commentary to=functions.add<|message|>{"a"}<|call|>)"),
            R"(|{"a"}|)");
  EXPECT_EQ(checked(ToolFamily::kHarmony, R"(<|channel|>commentary to=functions.add<|message|>{"a":1}<|call|>)"),
            R"(||add{"a":1} )");
  EXPECT_EQ(checked(ToolFamily::kHermes, R"(x <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>)"
                                         R"(<tool_call>{"name": "add", "arguments": {"a"}}</tool_call>)"),
            R"(|x<tool_call>{"name": "add", "arguments": {"a"}}</tool_call>|add{"a": 1} )");
}

TEST(ToolParsersTest, AForcedCallOfAFamilyIsWrittenAsTheFamilyDoes) {
  ToolSet tools = TwoTools();
  tools.use = ToolUse::kRequired;
  tools.forced_form = ForcedForm::kFamily;
  FamilyOutputOptions options = OptionsFor(ToolFamily::kHermes, ReasoningForm::kThink);
  options.tools = std::make_shared<const ToolSet>(tools);
  EXPECT_EQ(Parsed(options, "<think>a</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"),
            "a||add{} ");
}

TEST(ToolParsersTest, SpecialMarkersThatMeanNothingAreNoText) {
  FamilyOutputOptions options = OptionsFor(ToolFamily::kLlama);
  options.specials = {"<|python_tag|>"};
  EXPECT_EQ(Parsed(options, "a<|python_tag|>print(1)"), "|aprint(1)|");
}

TEST(ToolParsersTest, IdsAreStableAndOfTheFormThatTemplatesTake) {
  const auto ids = [](ToolFamily family, std::string_view text) {
    std::vector<std::string> result;
    for (const ToolCall& call : ParseIn(OptionsFor(family), {text}).tool_calls) result.push_back(call.id);
    return result;
  };
  const std::string_view list = R"([TOOL_CALLS][{"name": "add", "arguments": {}}, {"name": "add", "arguments": {}}])";
  const auto nine = ids(ToolFamily::kMistral, list);
  ASSERT_EQ(nine.size(), 2U);
  EXPECT_EQ(nine, ids(ToolFamily::kMistral, list));
  EXPECT_NE(nine[0], nine[1]);
  EXPECT_EQ(nine[0].size(), 9U);
  const auto usual = ids(ToolFamily::kLlama, R"({"name": "add", "parameters": {}})");
  ASSERT_EQ(usual.size(), 1U);
  EXPECT_EQ(usual[0].substr(0, 5), "call_");
  EXPECT_EQ(usual[0].size(), 29U);
}

TEST(ToolParsersTest, ANameComesBeforeItsArgumentsAndTheseAsTheyAreWritten) {
  const std::unique_ptr<OutputParser> parser = MakeFamilyOutput(OptionsFor(ToolFamily::kHermes));
  AnswerDelta head;
  parser->Push("<tool_call>{\"name\": \"add\", \"arguments\": {\"a", head);
  ASSERT_EQ(head.tool_calls.size(), 1U);
  EXPECT_EQ(head.tool_calls[0].name, "add");
  EXPECT_EQ(head.tool_calls[0].arguments, "{\"a");
  AnswerDelta more;
  parser->Push("\": 1", more);
  ASSERT_EQ(more.tool_calls.size(), 1U);
  EXPECT_EQ(more.tool_calls[0].id + more.tool_calls[0].name, "");
  EXPECT_EQ(more.tool_calls[0].arguments, "\": 1");
}

}  // namespace
}  // namespace roost::router

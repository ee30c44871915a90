// Slips that models make when they write calls, in every family: what is meant beyond doubt is a call.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/tool_parsers/lenient_json.h"
#include "tests/router/api/tool_outputs.h"

namespace roost::router {
namespace {

FamilyOutputOptions ListTools(ToolFamily family) {
  ToolSet tools;
  tools.functions = {
      {"list_dir", R"({"properties":{"path":{"type":"string"},"depth":{"type":"integer"},"tags":{"type":"array"},)"
                   R"("o":{"type":"object"}}})"},
      {"clock", R"({"properties":{}})"}};
  FamilyOutputOptions options = OptionsFor(family);
  options.tools = std::make_shared<const ToolSet>(std::move(tools));
  return options;
}

using Texts = std::vector<std::pair<std::string, std::string>>;

void ExpectAll(ToolFamily family, const Texts& texts) {
  FamilyOutputOptions options = ListTools(family);
  for (const CallDelivery delivery : {CallDelivery::kAtOnce, CallDelivery::kChecked}) {
    options.delivery = delivery;
    for (const auto& [text, line] : texts) EXPECT_EQ(Parsed(options, text), line) << text;
  }
}

TEST(ToolSlipsTest, XmlWithoutSomeOfItsTags) {
  const std::string path = "<parameter=path>\n/a\n</parameter>\n";
  const std::string call = "<function=list_dir>\n" + path + "</function>\n";
  ExpectAll(
      ToolFamily::kQwenXml,
      {{"I look.\n" + call + "</tool_call>", R"(|I look.|list_dir{"path":"/a"} )"},
       {"<tool_call>\n" + call, R"(||list_dir{"path":"/a"} )"},
       {"<tool_call>\n<function=list_dir>\n" + path + "</tool_call>\nx",
        "|\nx"
        R"(|list_dir{"path":"/a"} )"},
       {"<tool_call>\n<function=list_dir>\n" + path, R"(||list_dir{"path":"/a"} )"},
       {"<tool_call>\n<function=list_dir>\n<parameter=path>\n/a\n<parameter=depth>\n2\n</parameter>\n</function>\n"
        "</tool_call>",
        R"(||list_dir{"path":"/a","depth":2} )"},
       {"<tool_call>\n<function=list_dir>\n<parameter=path>\n/a\n</function>\n</tool_call>",
        R"(||list_dir{"path":"/a"} )"},
       {"<tool_call>\n" + call + "<function=clock>\n</function>\n</tool_call>", R"(||list_dir{"path":"/a"} clock{} )"},
       {"<tool_call>\n" + call + "<tool_call>\n<function=clock>\n</function>\n</tool_call>",
        R"(||list_dir{"path":"/a"} clock{} )"},
       {"<tool_call><tool_call>\n" + call + "</tool_call></tool_call>", R"(||list_dir{"path":"/a"} )"},
       {"<tool_call><function=clock></tool_call>", "||clock{} "},
       {"<function=other>\n</function>", "|<function=other>\n</function>|"},
       {"<tool_call><function=\"clock\"></function></tool_call>", "||clock{} "}});
}

// Its schema wants no text, so a tag within a string of it is text.
TEST(ToolSlipsTest, XmlTagsWithinStringsOfJsonAreText) {
  ExpectAll(
      ToolFamily::kQwenXml,
      {{"<tool_call><function=list_dir><parameter=o>\n{\"h\": \"</parameter></tool_call>\"}\n</parameter></function>"
        "</tool_call>",
        R"(||list_dir{"o":{"h":"</parameter></tool_call>"}} )"},
       {"<tool_call><function=list_dir><parameter=path>\na </function> b\n</parameter></function></tool_call>",
        "|<tool_call><function=list_dir><parameter=path>\na </function> "
        "b\n</parameter></function></tool_call>|"}});
  ExpectAll(ToolFamily::kGlm,
            {{"<tool_call>list_dir<arg_key>o</arg_key><arg_value>{\"h\": \"</arg_value>\"}</arg_value></tool_call>",
              R"(||list_dir{"o":{"h":"</arg_value>"}} )"}});
}

TEST(ToolSlipsTest, ListsAndObjectsAsPythonWritesThem) {
  ExpectAll(
      ToolFamily::kQwenXml,
      {{"<tool_call><function=list_dir><parameter=tags>\n['x', \"it's\", True]\n</parameter>\n<parameter=o>\n{'a': "
        "None}\n</parameter></function></tool_call>",
        R"(||list_dir{"tags":["x","it's",true],"o":{"a":null}} )"}});
  ExpectAll(ToolFamily::kGlm,
            {{"<tool_call>list_dir\n<arg_key>tags</arg_key>\n<arg_value>['x', 'y']</arg_value>\n</tool_call>",
              R"(||list_dir{"tags":["x","y"]} )"}});
  ExpectAll(ToolFamily::kHermes,
            {{"<tool_call>{'name': 'list_dir', 'arguments': {'path': '/a', 'o': {'deep': True}}}</tool_call>",
              R"(||list_dir{"path": "/a", "o": {"deep": true}} )"}});
}

TEST(ToolSlipsTest, GlmWithoutSomeOfItsTags) {
  const std::string path = "<arg_key>path</arg_key>\n<arg_value>/a</arg_value>\n";
  ExpectAll(
      ToolFamily::kGlm,
      {{"I look.\nlist_dir\n" + path + "</tool_call>", R"(|I look.|list_dir{"path":"/a"} )"},
       {"<tool_call>list_dir\n" + path, R"(||list_dir{"path":"/a"} )"},
       {"<tool_call>list_dir\n<arg_key>path\n<arg_value>/a</arg_value>\n</tool_call>", R"(||list_dir{"path":"/a"} )"},
       {"<tool_call>list_dir\n<arg_key>path</arg_key>\n<arg_value>/a\n<arg_key>depth</arg_key>\n<arg_value>2"
        "</arg_value>\n</tool_call>",
        R"(||list_dir{"path":"/a","depth":2} )"},
       {"<tool_call>list_dir\n" + path + "clock\n</tool_call>", R"(||list_dir{"path":"/a"} clock{} )"},
       {"<tool_call>clock\n" + path.substr(0, 0) + "</tool_call>", "||clock{} "},
       {"The function list_dir\nis there.", "|The function list_dir\nis there.|"}});
}

TEST(ToolSlipsTest, JsonInAnyOrderAndFormOfItsMembers) {
  const std::string arguments = R"({"path": "/a"})";
  const std::string line = R"(||list_dir{"path": "/a"} )";
  ExpectAll(ToolFamily::kHermes,
            {{R"(<tool_call>{"arguments": {"path": "/a"}, "name": "list_dir"}</tool_call>)", line},
             {R"(<tool_call>{"name": "list_dir", "arguments": "{\"path\": \"/a\"}"}</tool_call>)", line},
             {R"(<tool_call>{"arguments": "{\"path\": \"/a\"}", "id": 7, "name": "list_dir"}</tool_call>)", line},
             {R"(<tool_call>{"name": "clock", "arguments": null}</tool_call>)", "||clock{} "},
             {R"(<tool_call>{"name": "clock", "arguments": ""}</tool_call>)", "||clock{} "},
             {R"(<tool_call>{"name": "clock"}</tool_call>)", "||clock{} "},
             {R"(<tool_call>{"name": "clock", "arguments": "now"}</tool_call>)",
              R"(|<tool_call>{"name": "clock", "arguments": "now"}</tool_call>|)"},
             {"<tool_call>{\"name\": \"list_dir\", \"arguments\": " + arguments +
                  "}\n{\"name\": \"clock\", \"arguments\": {}}\n"
                  "</tool_call>x",
              R"(|x|list_dir{"path": "/a"} clock{} )"},
             {R"(<tool_call>{"name": "list_dir", "arguments": {"path": "/a"}</tool_call>)", line},
             {R"(<tool_call>{"name": "list_dir", "arguments": {"path": "/a"}}}</tool_call>)", line},
             {R"({"name": "list_dir", "arguments": {"path": "/a"}}</tool_call>)", line},
             {"I look.\n"
              R"({"name": "list_dir", "arguments": {"path": "/a"}}</tool_call>)",
              "|I look" + ("." + line.substr(1))},
             {R"({"name": "list_dir", "arguments": {"path": "/a"}})",
              R"(|{"name": "list_dir", "arguments": {"path": "/a"}}|)"},
             {"<tool_call>\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>\n</tool_call>",
              "||clock{} "}});
}

// As the API writes them, and names in place of objects.
TEST(ToolSlipsTest, CallsWithinAnObjectOfAFunction) {
  const std::string line = R"(||list_dir{"path": "/a"} )";
  ExpectAll(
      ToolFamily::kHermes,
      {{R"(<tool_call>{"type": "function", "function": {"name": "list_dir", "arguments": {"path": "/a"}}}</tool_call>)",
        line},
       {R"(<tool_call>{"function": {"arguments": {"path": "/a"}, "name": "list_dir"}, "id": "c1"}</tool_call>x)",
        "|x" + line.substr(1)},
       {R"(<tool_call>[{"id": "c", "function": {"name": "list_dir", "arguments": "{\"path\": \"/a\"}"}}, {"function": {"name": )"
        R"("clock"}, "id": "d"}]</tool_call>)",
        R"(||list_dir{"path": "/a"} clock{} )"}});
  ExpectAll(ToolFamily::kLlama,
            {{R"({"type": "function", "function": "list_dir", "parameters": {"path": "/a"}})", line},
             {R"({"function": {"name": "list_dir", "parameters": {"path": "/a"}}})", line},
             {R"(<|python_tag|><function=list_dir>{"path": "/a"})", line},
             {R"(<function=other>{"path": "/a"}</function>)", R"(|<function=other>{"path": "/a"}</function>|)"}});
}

TEST(ToolSlipsTest, ParametersAsOneObject) {
  ExpectAll(
      ToolFamily::kQwenXml,
      {{"<tool_call>\n<function=list_dir>\n{\"path\": \"/a\", 'depth': 2}\n</function>\n</tool_call>",
        R"(||list_dir{"path": "/a", "depth": 2} )"},
       {"<tool_call><function=list_dir>{\"path\": </function></tool_call>",
        "|<tool_call><function=list_dir>{\"path\": </function></tool_call>|"},
       {"<tool_call><function=list_dir>{\"path\": \"/a\"}<parameter=depth>2</parameter></function></tool_call>",
        "|<tool_call><function=list_dir>{\"path\": \"/a\"}<parameter=depth>2</parameter></function></tool_call>|"}});
}

TEST(ToolSlipsTest, OtherFamiliesWithoutSomeOfTheirMarkers) {
  const std::string line = R"(||list_dir{"path": "/a"} )";
  ExpectAll(ToolFamily::kKimi,
            {{R"(functions.list_dir:0<|tool_call_argument_begin|>{"path": "/a"}<|tool_call_end|>)", line},
             {R"(<|tool_call_begin|>functions.list_dir:0{"path": "/a"}<|tool_call_end|>)", line},
             {R"(<|tool_call_begin|>functions.list_dir:0<|tool_call_argument_begin|>{"path": "/a"})", line},
             {"<|tool_call_begin|>functions.clock:0<|tool_call_argument_begin|><|tool_call_end|>", "||clock{} "}});
  ExpectAll(ToolFamily::kDeepSeek,
            {{"<｜tool▁call▁begin｜>function<｜tool▁sep｜>list_dir\n{\"path\": \"/a\"}<｜tool▁call▁end｜>", line},
             {"<｜tool▁call▁begin｜>list_dir<｜tool▁sep｜>{\"path\": \"/a\"}", line},
             {"list_dir<｜tool▁sep｜>{\"path\": \"/a\"}<｜tool▁call▁end｜>", line},
             {"<｜tool▁call▁begin｜>clock<｜tool▁sep｜><｜tool▁call▁end｜>", "||clock{} "}});
  ExpectAll(ToolFamily::kMistral, {{R"([TOOL_CALLS]list_dir{"path": "/a"})", line},
                                   {R"(list_dir[ARGS]{"path": "/a"})", line},
                                   {"[TOOL_CALLS]clock[ARGS]", "||clock{} "},
                                   {R"([{"name": "list_dir", "arguments": {"path": "/a"}}])", line}});
  ExpectAll(ToolFamily::kGranite, {{R"([{"name": "list_dir", "arguments": {"path": "/a"}}])", line},
                                   {R"(<|tool_call|>{"name": "list_dir", "arguments": {"path": "/a"}})", line}});
  ExpectAll(ToolFamily::kLlama, {{R"({"name": "list_dir", "parameters": {"path": "/a"}}{"name": "clock"})",
                                  R"(||list_dir{"path": "/a"} clock{} )"}});
  ExpectAll(ToolFamily::kPythonic, {{"<|tool_call_start|>[clock()]", "||clock{} "},
                                    {"<|tool_call_start|>[list_dir(path='a', path='b')]<|tool_call_end|>",
                                     "|<|tool_call_start|>[list_dir(path='a', path='b')]<|tool_call_end|>|"}});
}

TEST(ToolSlipsTest, HarmonyWithoutSomeOfItsMarkers) {
  const std::string line = R"(||list_dir{"path": "/a"} )";
  ExpectAll(ToolFamily::kHarmony,
            {{"<|channel|>commentary to=functions.clock<|message|><|call|>", "||clock{} "},
             {"<|channel|>commentary to=functions.clock<|message|>", "||clock{} "},
             {R"(commentary to=functions.list_dir <|constrain|>json<|message|>{"path": "/a"}<|call|>)", line},
             {R"(<|channel|>commentary to=functions.list_dir <|constrain|>json{"path": "/a"}<|call|>)", line},
             {R"(<|channel|>commentary to=functions.list_dir json<|message|>"{\"path\": \"/a\"}"<|call|>)", line},
             {R"(<|channel|>commentary to=functions.list_dir<|message|>{"path": "<|call|>"}<|call|>)",
              R"(||list_dir{"path": "<|call|>"} )"},
             {R"(<|channel|>commentary to=functions.list_dir<|message|>{"path": "/a"}}<|call|>)", line},
             {"<|channel|>analysisHm.<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hm.|Hi|"},
             {"<|channel|>analysis<|message|>Hm.<|end|>assistant<|channel|>final<|message|>Hi", "Hm.|Hi|"},
             {"<|channel|>finalHello", "|Hello|"}});
}

TEST(ToolSlipsTest, FamiliesOfTagsAndMarks) {
  ExpectAll(
      ToolFamily::kDsml,
      {{"<｜DSML｜tool_calls><｜DSML｜invoke name=\"list_dir\"><｜DSML｜parameter name=\"path\" string=\"true\">12"
        "</｜DSML｜parameter><｜DSML｜parameter name=\"o\" string=\"false\">{\"a\": 1}</｜DSML｜parameter>"
        "</｜DSML｜invoke></｜DSML｜tool_calls>",
        R"(||list_dir{"path":"12","o":{"a":1}} )"}});
  ExpectAll(
      ToolFamily::kGemma,
      {{R"(<|tool_call>call:list_dir{path:<|"|>a "b" \ {<|"|>,depth:2,tags:[<|"|>x<|"|>,null],o:{d:true}}<tool_call|>)",
        R"(||list_dir{"path":"a \"b\" \\ {","depth":2,"tags":["x",null],"o":{"d":true}} )"},
       {R"(call:list_dir{"path":"/a"}<tool_call|>)", R"(||list_dir{"path":"/a"} )"},
       {R"(<|tool_call>call:list_dir{path:/a}<tool_call|>)", R"(|<|tool_call>call:list_dir{path:/a}<tool_call|>|)"}});
  FamilyOutputOptions options = ListTools(ToolFamily::kGemma);
  options.family.reasoning = ReasoningForm::kChannel;
  options.reasoning_start = ReasoningStart::kOutside;
  EXPECT_EQ(Parsed(options, "<|channel>thought\nHm.\n<channel|>Yes.<|tool_call>call:clock{}<tool_call|>"),
            "Hm.|Yes.|clock{} ");
  EXPECT_EQ(ReasoningStartOf(options.family, "<|turn>model\n<|channel>thought\n<channel|>"), ReasoningStart::kNever);
  options = ListTools(ToolFamily::kSeed);
  options.family.reasoning = ReasoningForm::kSeedThink;
  options.reasoning_start = ReasoningStart::kOutside;
  EXPECT_EQ(Parsed(options,
                   "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=list_dir>\n<parameter=path>/a"
                   "</parameter>\n</function>\n</seed:tool_call>"),
            R"(Hm.||list_dir{"path":"/a"} )");
}

TEST(ToolSlipsTest, ACallThatTheEndCutsIsNoOtherCall) {
  const auto cut = [](ToolFamily family, std::string_view text) {
    FamilyOutputOptions options = ListTools(family);
    options.delivery = CallDelivery::kChecked;
    return Line(ParseIn(options, {text}, TextEnd::kCut));
  };
  const std::string qwen = "<tool_call>\n<function=list_dir>\n<parameter=path>\n/a\n</parameter>\n";
  EXPECT_EQ(cut(ToolFamily::kQwenXml, qwen), "|" + qwen + "|");
  const std::string glm = "<tool_call>list_dir\n<arg_key>path</arg_key>\n<arg_value>/a</arg_value>\n";
  EXPECT_EQ(cut(ToolFamily::kGlm, glm), "|" + glm + "|");
}

TEST(ToolSlipsTest, ValuesThatAreNearlyJson) {
  const auto json = [](std::string_view text) { return JsonOfLenient(text).value_or("none"); };
  EXPECT_EQ(json(R"({"a":[1,-2.5e3,true,null,"\u00e9\n"]})"), R"({"a":[1,-2.5e3,true,null,"\u00e9\n"]})");
  EXPECT_EQ(json(R"({'it\'s': "say 'hi'", 'q': 'a "b"'})"), R"({"it's": "say 'hi'", "q": "a \"b\""})");
  EXPECT_EQ(json("{\"a\": \"two\nlines\tand \\d+ \\u12\"}"), R"({"a": "two\nlines\u0009and \\d+ \\u12"})");
  EXPECT_EQ(json(R"({'a': '\x41\u00e9'})"), R"({"a": "\u0041\u00e9"})");
  EXPECT_EQ(json("[True, False, None]"), "[true, false, null]");
  for (const std::string_view broken :
       {"{", "{\"a\":1,}", "[1,]", "{a: 1}", "[01]", "[nan]", "[1 2]", "{\"a\" 1}", "[}"}) {
    EXPECT_EQ(json(broken), "none") << broken;
  }
  const std::string deep = std::string(500, '[') + "18446744073709551616" + std::string(500, ']');
  EXPECT_EQ(json(deep), deep);
}

}  // namespace
}  // namespace roost::router

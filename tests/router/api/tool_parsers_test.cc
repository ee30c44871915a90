// Families of models: their output becomes content, reasoning and calls, however it is cut into pieces.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/text/chat_template.h"
#include "router/api/family_output.h"
#include "router/api/tool_request.h"
#include "tests/common/text/jinja_support.h"
#include "tests/support/shared_data.h"

namespace roost::router {
namespace {

using testing_support::ReadFile;
using testing_support::StoredDate;

ToolSet TwoTools() {
  ToolSet tools;
  tools.functions = {{"get_weather", "", {"city"}}, {"add", "", {}}};
  return tools;
}

FamilyOutputOptions OptionsFor(ToolFamily family, ReasoningForm reasoning = ReasoningForm::kNone) {
  FamilyOutputOptions options;
  options.family = {family, reasoning};
  options.tools = std::make_shared<const ToolSet>(TwoTools());
  options.ids.answer_id = "chatcmpl-1";
  if (reasoning == ReasoningForm::kNone) options.reasoning_start = ReasoningStart::kNever;
  return options;
}

ChoiceAnswer ParseIn(const FamilyOutputOptions& options, const std::vector<std::string_view>& pieces) {
  const std::unique_ptr<OutputParser> parser = MakeFamilyOutput(options);
  ChoiceAnswer answer;
  for (const std::string_view piece : pieces) {
    AnswerDelta delta;
    parser->Push(piece, delta);
    answer.Append(std::move(delta));
  }
  AnswerDelta rest;
  parser->Finish(rest);
  answer.Append(std::move(rest));
  return answer;
}

// The answer as one line: reasoning | content | f{…} g{…}
std::string Line(const ChoiceAnswer& answer) {
  std::string line = answer.reasoning + "|" + answer.content + "|";
  for (const ToolCall& call : answer.tool_calls) line += call.name + call.arguments + " ";
  return line;
}

// Parses the text whole and byte by byte; the result must be the same.
std::string ParsedInBytes(const FamilyOutputOptions& options, std::string_view text) {
  const std::string whole = Line(ParseIn(options, {text}));
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(Line(ParseIn(options, bytes)), whole) << text;
  return whole;
}

// Also cut in two anywhere.
std::string Parsed(const FamilyOutputOptions& options, std::string_view text) {
  const std::string whole = ParsedInBytes(options, text);
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(Line(ParseIn(options, {text.substr(0, cut), text.substr(cut)})), whole) << text << " cut at " << cut;
  }
  return whole;
}

std::string Parsed(ToolFamily family, std::string_view text) { return Parsed(OptionsFor(family), text); }

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
    EXPECT_EQ(ParsedInBytes(options, call + space + "</tool_call>x"),
              is_read ? "|x|add{} " : "|" + space + "</tool_call>x|add{} ");
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
            R"("name":{"const":"add"},"arguments":{"type":"object"}},"required":["name","arguments"],)"
            R"("additionalProperties":false}]}})");
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

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The bytes read grow linearly with the text: the ratio of times is the same on any machine.
TEST(ToolParsersTest, HostileTextTakesLinearTime) {
  const std::vector<std::string> parts{"<",
                                       "<tool_call>",
                                       "{",
                                       "[",
                                       "\"",
                                       "<think>",
                                       "[TOOL_CALLS]",
                                       "<|channel|>",
                                       "<｜tool▁call▁begin｜>",
                                       "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [",
                                       " ",
                                       "\n",
                                       "[add(a=",
                                       "<|message|>",
                                       "<|tool_call_begin|>",
                                       "<arg_key>"};
  const auto seconds = [](const FamilyOutputOptions& options, const std::string& part, std::size_t size) {
    std::string text;
    while (text.size() < size) text += part;
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < text.size(); i += 7) pieces.push_back(std::string_view(text).substr(i, 7));
    double best = 1e9;
    for (int turn = 0; turn < 2; ++turn) {
      const double begin = ThreadSeconds();
      (void)ParseIn(options, pieces);
      best = std::min(best, ThreadSeconds() - begin);
    }
    return best;
  };
  for (const ToolFamily family :
       {ToolFamily::kHermes, ToolFamily::kLlama, ToolFamily::kPythonic, ToolFamily::kMistral, ToolFamily::kHarmony,
        ToolFamily::kDeepSeek, ToolFamily::kGranite, ToolFamily::kGlm, ToolFamily::kQwenXml, ToolFamily::kKimi}) {
    for (const CallDelivery delivery : {CallDelivery::kAtOnce, CallDelivery::kChecked}) {
      FamilyOutputOptions options = OptionsFor(family, ReasoningForm::kThink);
      options.delivery = delivery;
      for (const std::string& part : parts) {
        constexpr double kNoise = 2e-3;
        const double small = seconds(options, part, 8'000);
        EXPECT_LE(seconds(options, part, 32'000), 8 * (small + kNoise)) << NameOf(family) << ": " << part;
      }
    }
  }
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

// ---- every stored template ----

struct TemplateCase {
  std::string name;
  ToolFamily family;
  bool calls;  // the template renders calls
};

class RealTemplateTest : public testing::TestWithParam<TemplateCase> {
 protected:
  void SetUp() override { ROOST_SKIP_WITHOUT(Folder()); }
  static std::filesystem::path Folder() { return testing_support::SharedDir() / "chat_templates"; }
};

constexpr std::string_view kQuestion = R"({"role": "user", "content": "How warm?"})";
constexpr std::string_view kArguments =
    R"({"city": "K\u00f6ln \"x\" }] \u2603", "days": [1, {"a": null}], "exact": true})";

std::string ContextOf(std::string_view messages, std::string_view end) {
  return fmt::format(
      R"({{"messages": [{}], "tools": [{{"type": "function", "function": {{"name": "get_weather",)"
      R"("description": "d", "parameters": {{"type": "object", "properties": {{"city": {{"type": "string"}})"
      R"(}}}}}}}}], "bos_token": "<s>", "eos_token": "</s>", {}}})",
      messages, end);
}

std::string Compact(std::string_view json) {
  return testing_support::RenderTemplate("{{ value | tojson }}", fmt::format(R"({{"value": {}}})", json)).value();
}

// The template renders an assistant's message with a call, and the parser reads it back as that call.
TEST_P(RealTemplateTest, ReadsBackTheCallsThatItWrites) {
  const auto parsed = ChatTemplate::Parse(ReadFile(Folder() / "templates" / GetParam().name), "t").value();
  ASSERT_EQ(NameOf(parsed->family().tools), NameOf(GetParam().family));
  if (!GetParam().calls) GTEST_SKIP() << "the template renders no calls";
  const std::string call = fmt::format(
      R"({{"role": "assistant", "content": "", "tool_calls": [{{"id": "123456789", "type": "function", "function":)"
      R"({{"name": "get_weather", "arguments": {}}}}}]}})",
      kArguments);
  const auto render = [&](const std::string& json) {
    const jinja::Value context = jinja::FromJson(json, "context").value();
    return parsed->Render(context, StoredDate());
  };
  const std::string messages = std::string(kQuestion) + "," + call;
  const Result<std::string> whole =
      render(ContextOf(messages, R"("add_generation_prompt": false, "enable_thinking": true)"));
  const Result<std::string> prompt =
      render(ContextOf(kQuestion, R"("add_generation_prompt": true, "enable_thinking": true)"));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  std::size_t common = 0;
  while (common < prompt->size() && (*prompt)[common] == (*whole)[common]) ++common;
  if (common > 0 && (*whole)[common - 1] == '<') --common;  // the first byte of two markers that begin alike
  std::string turn = whole->substr(common);
  for (const std::string_view stop : {"<|im_end|>", "<|eot_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|call|>"}) {
    turn = turn.substr(0, turn.find(stop));
  }
  FamilyOutputOptions options;
  options.family = parsed->family();
  options.tools = std::make_shared<const ToolSet>(TwoTools());
  const ChoiceAnswer answer = ParseIn(options, {turn});
  ASSERT_EQ(answer.tool_calls.size(), 1U) << turn;
  EXPECT_EQ(answer.tool_calls[0].name, "get_weather");
  EXPECT_EQ(Compact(answer.tool_calls[0].arguments), Compact(kArguments)) << turn;
  EXPECT_EQ(answer.content, "") << turn;
  Parsed(options, turn);
}

INSTANTIATE_TEST_SUITE_P(
    All, RealTemplateTest,
    testing::Values(TemplateCase{"GLM-4.6.jinja", ToolFamily::kGlm, true},
                    TemplateCase{"HuggingFaceTB-SmolLM3-3B.jinja", ToolFamily::kNone, false},
                    TemplateCase{"Kimi-K2-Instruct.jinja", ToolFamily::kKimi, true},
                    TemplateCase{"LFM2-8B-A1B.jinja", ToolFamily::kPythonic, false},
                    TemplateCase{"Qwen-Qwen2.5-7B-Instruct.jinja", ToolFamily::kHermes, true},
                    TemplateCase{"Qwen-Qwen3-0.6B.jinja", ToolFamily::kHermes, true},
                    TemplateCase{"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", ToolFamily::kDeepSeek, true},
                    TemplateCase{"google-gemma-2-2b-it.jinja", ToolFamily::kNone, false},
                    TemplateCase{"ibm-granite-granite-3.3-2B-Instruct.jinja", ToolFamily::kGranite, false},
                    TemplateCase{"meta-llama-Llama-3.1-8B-Instruct.jinja", ToolFamily::kLlama, true},
                    TemplateCase{"meta-llama-Llama-3.2-3B-Instruct.jinja", ToolFamily::kLlama, true},
                    TemplateCase{"microsoft-Phi-3.5-mini-instruct.jinja", ToolFamily::kNone, false},
                    TemplateCase{"mistralai-Mistral-Nemo-Instruct-2407.jinja", ToolFamily::kMistral, true},
                    TemplateCase{"openai-gpt-oss-120b.jinja", ToolFamily::kHarmony, true}),
    [](const auto& param) {
      std::string name = param.param.name;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

}  // namespace
}  // namespace roost::router

// Right calls of every family, with tags dropped, doubled and swapped, and cut off anywhere: what the parser reports is
// a call that the model made, or text, or arguments that do not parse; never another call.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "router/api/tool_parsers/partial_text.h"
#include "tests/router/api/tool_outputs.h"

namespace roost::router {
namespace {

struct Piece {
  std::string text;
  bool is_tag = false;
};
using Pieces = std::vector<Piece>;

struct RightAnswer {
  ToolFamily family;
  std::string written;  // with its tags between \x01 and \x02
};

Pieces PiecesOf(std::string_view written) {
  Pieces pieces;
  while (!written.empty()) {
    const bool is_tag = written.front() == '\x01';
    if (is_tag) written.remove_prefix(1);
    const std::size_t size = std::min(written.size(), written.find(is_tag ? '\x02' : '\x01'));
    pieces.push_back({std::string(written.substr(0, size)), is_tag});
    written.remove_prefix(std::min(written.size(), size + (is_tag ? 1 : 0)));
  }
  return pieces;
}

std::string TextOf(const Pieces& pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

// «tag» as a tag.
std::string Tagged(std::string_view text) {
  std::string written(text);
  const auto replace = [&written](std::string_view from, std::string_view to) {
    for (std::size_t at = written.find(from); at != std::string::npos; at = written.find(from, at + to.size())) {
      written.replace(at, from.size(), to);
    }
  };
  replace("«", "\x01");
  replace("»", "\x02");
  return written;
}

FamilyOutputOptions SlipOptions(ToolFamily family, CallDelivery delivery) {
  ToolSet tools;
  tools.functions = {
      {"list_dir", R"({"properties":{"path":{"type":"string"},"depth":{"type":"integer"},"o":{"type":"object"}}})"},
      {"clock", R"({"properties":{}})"}};
  FamilyOutputOptions options = OptionsFor(family);
  options.tools = std::make_shared<const ToolSet>(std::move(tools));
  options.delivery = delivery;
  return options;
}

const std::vector<RightAnswer>& RightAnswers() {
  static const std::vector<RightAnswer> answers{
      {ToolFamily::kHermes,
       Tagged(
           "Look.\n«<tool_call>»\n{\"name\": \"list_dir\", \"arguments\": {\"path\": \"/a </tool_call> b\", \"depth\": "
           "2}}\n«</tool_call>»\n«<tool_call>»\n{\"name\": \"clock\", \"arguments\": {}}\n«</tool_call>»")},
      {ToolFamily::kLlama,
       Tagged("«<|python_tag|>»{\"name\": \"list_dir\", \"parameters\": {\"path\": \"/a <|python_tag|>\", \"depth\": "
              "2}}«; »{\"name\": \"clock\", \"parameters\": {}}")},
      {ToolFamily::kLlama,
       Tagged("Ok «<function=»list_dir>{\"path\": \"/a </function>\", \"depth\": 2}«</function>»\n«<function=»clock>{}"
              "«</function>»")},
      {ToolFamily::kHermes,
       Tagged("Look.\n«<tool_call>»\n{\"type\": \"function\", \"function\": {\"name\": \"list_dir\", \"arguments\": "
              "{\"path\": \"/a </tool_call> b\", \"depth\": 2}}, \"id\": "
              "7}\n«</tool_call>»\n«<tool_call>»\n{\"function\": "
              "{\"name\": \"clock\"}, \"id\": 8}\n«</tool_call>»")},
      {ToolFamily::kGranite,
       Tagged("«<|tool_call|>»[{\"name\": \"list_dir\", \"arguments\": {\"path\": \"<|tool_call|>\", \"depth\": "
              "2}}«, »{\"name\": \"clock\", \"arguments\": {}}]")},
      {ToolFamily::kMistral,
       Tagged("Hm«[TOOL_CALLS]»list_dir«[ARGS]»{\"path\": \"[ARGS]\", \"depth\": 2}«[TOOL_CALLS]»clock«[ARGS]»{}")},
      {ToolFamily::kMistral,
       Tagged("«[TOOL_CALLS]»[{\"name\": \"list_dir\", \"arguments\": {\"path\": \"/a\", \"depth\": 2}}«, »{\"name\": "
              "\"clock\", \"arguments\": {}}]")},
      {ToolFamily::kKimi,
       Tagged("Ok «<|tool_calls_section_begin|>»«<|tool_call_begin|>»functions.list_dir:0«<|tool_call_argument_begin|>»"
              "{\"path\": \"<|tool_call_end|>\", \"depth\": 2}«<|tool_call_end|>»«<|tool_call_begin|>»functions.clock:1"
              "«<|tool_call_argument_begin|>»{}«<|tool_call_end|>»«<|tool_calls_section_end|>»")},
      {ToolFamily::kDeepSeek,
       Tagged("«<｜tool▁calls▁begin｜>»«<｜tool▁call▁begin｜>»function«<｜tool▁sep｜>»list_dir\n«```json\n»{\"path\": "
              "\"```\", \"depth\": 2}«\n```»«<｜tool▁call▁end｜>»\n«<｜tool▁call▁begin｜>»clock«<｜tool▁sep｜>»{}"
              "«<｜tool▁call▁end｜>»«<｜tool▁calls▁end｜>»")},
      {ToolFamily::kGlm,
       Tagged("Ok\n«<tool_call>»list_dir\n«<arg_key>»path«</arg_key>»\n«<arg_value>»/a«</arg_value>»\n«<arg_key>»depth"
              "«</arg_key>»\n«<arg_value>»2«</arg_value>»\n«<arg_key>»o«</arg_key>»\n«<arg_value>»{\"h\": "
              "\"</arg_value>\"}«</arg_value>»\n«</tool_call>»\n«<tool_call>»clock\n«</tool_call>»")},
      {ToolFamily::kQwenXml,
       Tagged(
           "Ok\n«<tool_call>»\n«<function=»list_dir>\n«<parameter=»path>\n/a\n«</parameter>»\n«<parameter=»depth>\n2\n"
           "«</parameter>»\n«<parameter=»o>\n{\"h\": \"</parameter>\"}\n«</parameter>»\n«</function>»\n«</tool_call>»\n"
           "«<tool_call>»\n«<function=»clock>\n«</function>»\n«</tool_call>»")},
      {ToolFamily::kSeed,
       Tagged(
           "Ok\n«<seed:tool_call>»\n«<function=»list_dir>\n«<parameter=»path>/a«</parameter>»\n«<parameter=»depth>2"
           "«</parameter>»\n«</function>»\n«</seed:tool_call>»\n«<seed:tool_call>»\n«<function=»clock>\n«</function>»\n"
           "«</seed:tool_call>»")},
      {ToolFamily::kMiniMax,
       Tagged("Ok\n«<minimax:tool_call>»\n«<invoke name=»\"list_dir\">\n«<parameter name=»\"path\">/a«</parameter>»\n"
              "«<parameter name=»\"depth\">2«</parameter>»\n«</invoke>»\n«<invoke name=»\"clock\">\n«</invoke>»\n"
              "«</minimax:tool_call>»")},
      {ToolFamily::kDsml,
       Tagged(
           "Ok\n«<｜DSML｜function_calls>»\n«<｜DSML｜invoke name=»\"list_dir\">\n«<｜DSML｜parameter name=»\"path\" "
           "string=\"true\">/a«</｜DSML｜parameter>»\n«<｜DSML｜parameter name=»\"depth\" string=\"false\">2"
           "«</｜DSML｜parameter>»\n«</｜DSML｜invoke>»\n«<｜DSML｜invoke name=»\"clock\">\n«</｜DSML｜invoke>»\n"
           "«</｜DSML｜function_calls>»")},
      {ToolFamily::kDsml,
       Tagged(
           "Ok\n«<｜DSML｜function_calls>»\n«<｜DSML｜invoke name=»\"list_dir\">\n{\"path\": \"/a </｜DSML｜invoke>\", "
           "\"depth\": 2}\n«</｜DSML｜invoke>»\n«<｜DSML｜invoke name=»\"clock\">{}«</｜DSML｜invoke>»\n"
           "«</｜DSML｜function_calls>»")},
      {ToolFamily::kGemma,
       Tagged(
           "Ok «<|tool_call>»call:list_dir{path:«<|\"|>»/a <tool_call|> {«<|\"|>»,depth:2}«<tool_call|>»«<|tool_call>»"
           "call:clock{}«<tool_call|>»")},
      {ToolFamily::kPythonic,
       Tagged("Ok «<|tool_call_start|>»«[»list_dir(path=\"/a <|tool_call_end|>\"«, »depth=2)«, »clock()«]»"
              "«<|tool_call_end|>»")},
      {ToolFamily::kHarmony,
       Tagged("«<|channel|>»analysis«<|message|>»Hm.«<|end|>»«<|start|>»assistant«<|channel|>»commentary "
              "to=functions.list_dir «<|constrain|>»json«<|message|>»{\"path\": \"<|call|>\", \"depth\": 2}«<|call|>»"
              "«<|start|>»assistant«<|channel|>»commentary to=functions.clock«<|message|>»{}«<|call|>»")},
  };
  return answers;
}

using Calls = std::vector<std::string>;

std::string CallLine(const ToolCall& call) { return call.name + CompactJson(call.arguments).value_or("?"); }

class Mutations : public testing::TestWithParam<std::size_t> {
 protected:
  static const RightAnswer& right() { return RightAnswers()[GetParam()]; }

  static ChoiceAnswer Parse(std::string_view text, CallDelivery delivery, TextEnd end, std::size_t most_bytes) {
    Rng random(text.size() + most_bytes);
    std::vector<std::string_view> pieces;
    while (!text.empty()) {
      const std::size_t size = std::min<std::size_t>(text.size(), 1 + random.Below(most_bytes));
      pieces.push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    return ParseIn(SlipOptions(right().family, delivery), pieces, end);
  }

  void SetUp() override {
    const ChoiceAnswer answer = Parse(TextOf(PiecesOf(right().written)), CallDelivery::kChecked, TextEnd::kStopped, 1);
    for (const ToolCall& call : answer.tool_calls) made_.push_back(CallLine(call));
    ASSERT_EQ(made_.size(), 2U) << Line(answer);
    ASSERT_EQ(made_[1], "clock{}");
  }

  // Checks one text, also cut off at every `step` bytes.
  void Check(const std::string& text, std::size_t step) {
    for (std::size_t size = text.size() % step; size <= text.size(); size += step) {
      const std::string_view prefix = std::string_view(text).substr(0, size);
      const TextEnd end = size == text.size() ? TextEnd::kStopped : TextEnd::kCut;
      for (const CallDelivery delivery : {CallDelivery::kAtOnce, CallDelivery::kChecked}) {
        const ChoiceAnswer whole = Parse(prefix, delivery, end, 1'000'000);
        ASSERT_EQ(Line(Parse(prefix, delivery, end, 5)), Line(whole)) << prefix;
        for (const ToolCall& call : whole.tool_calls) {
          const bool is_object = IsJsonObject(call.arguments);
          ASSERT_TRUE(is_object || delivery == CallDelivery::kAtOnce) << prefix;
          const bool is_made = std::find(made_.begin(), made_.end(), CallLine(call)) != made_.end();
          ASSERT_TRUE(!is_object || is_made) << CallLine(call) << " of " << prefix;
        }
        if (end == TextEnd::kStopped && delivery == CallDelivery::kChecked) ++outcomes_[whole.tool_calls.size()];
      }
    }
  }

  Calls made_;
  std::map<std::size_t, int> outcomes_;  // texts by their number of calls
};

TEST_P(Mutations, AreCallsThatWereMadeOrText) {
  const Pieces pieces = PiecesOf(right().written);
  Check(TextOf(pieces), 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].is_tag) continue;
    Pieces dropped = pieces;
    dropped[i].text.clear();
    Check(TextOf(dropped), 2);
    Pieces doubled = pieces;
    doubled[i].text += pieces[i].text;
    Check(TextOf(doubled), 3);
    for (std::size_t j = i + 1; j < pieces.size(); ++j) {
      if (!pieces[j].is_tag || pieces[j].text == pieces[i].text) continue;
      Pieces swapped = pieces;
      std::swap(swapped[i].text, swapped[j].text);
      Check(TextOf(swapped), 23);
    }
  }
  std::string counts;
  for (const auto& [calls, texts] : outcomes_) counts += fmt::format(" {} with {} calls", texts, calls);
  RecordProperty("outcomes", counts);
}

INSTANTIATE_TEST_SUITE_P(Families, Mutations, testing::Range<std::size_t>(0, RightAnswers().size()),
                         [](const auto& param) {
                           std::string name =
                               fmt::format("{}{}", NameOf(RightAnswers()[param.param].family), param.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace roost::router

// A model's output, for every family: the cut into pieces changes nothing, and the parser reports nothing that was not
// written. Byte 0 picks the family and where reasoning begins; byte 1 picks how the text is cut and when calls are
// reported.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr unsigned kFamilyCount = static_cast<unsigned>(ToolFamily::kGemma) + 1;

FamilyOutputOptions OptionsOf(unsigned choice) {
  ToolSet tools;
  tools.functions = {{"f", R"({"properties":{"a":{"type":["string","null"]}}})"}, {"g", ""}};
  FamilyOutputOptions options;
  options.family.tools = static_cast<ToolFamily>(choice % kFamilyCount);
  choice /= kFamilyCount;
  if (choice % 2 == 1) options.family.reasoning = ReasoningForm::kThink;
  if (options.family.reasoning == ReasoningForm::kNone) options.reasoning_start = ReasoningStart::kNever;
  if (choice % 4 == 3) options.reasoning_start = ReasoningStart::kInside;
  options.tools = std::make_shared<const ToolSet>(std::move(tools));
  options.ids.answer_id = "a";
  return options;
}

ChoiceAnswer ParseIn(const FamilyOutputOptions& options, std::string_view text, std::size_t piece_bytes) {
  const auto parser = MakeFamilyOutput(options);
  ChoiceAnswer answer;
  while (!text.empty()) {
    AnswerDelta delta;
    parser->Push(text.substr(0, piece_bytes), delta);
    answer.Append(std::move(delta));
    text.remove_prefix(std::min(piece_bytes, text.size()));
  }
  AnswerDelta rest;
  parser->Finish(rest, TextEnd::kStopped);
  answer.Append(std::move(rest));
  return answer;
}

bool IsSubsequence(std::string_view part, std::string_view whole) {
  for (const char c : whole) {
    if (!part.empty() && part.front() == c) part.remove_prefix(1);
  }
  return part.empty();
}

void CheckEqual(const ChoiceAnswer& left, const ChoiceAnswer& right) {
  ROOST_CHECK(left.content == right.content && left.reasoning == right.reasoning);
  ROOST_CHECK(left.tool_calls.size() == right.tool_calls.size());
  for (std::size_t i = 0; i < left.tool_calls.size(); ++i) {
    ROOST_CHECK(left.tool_calls[i].id == right.tool_calls[i].id && left.tool_calls[i].name == right.tool_calls[i].name);
    ROOST_CHECK(left.tool_calls[i].arguments == right.tool_calls[i].arguments);
  }
}

void FuzzOne(std::string_view bytes) {
  if (bytes.size() < 2) return;
  FamilyOutputOptions options = OptionsOf(static_cast<unsigned char>(bytes[0]));
  const bool is_checked = static_cast<unsigned char>(bytes[1]) >= 0x80;
  if (is_checked) options.delivery = CallDelivery::kChecked;
  const std::size_t piece_bytes = 1 + static_cast<unsigned char>(bytes[1]) % 16;
  const std::string_view text = bytes.substr(2);
  const ChoiceAnswer whole = ParseIn(options, text, text.size());
  CheckEqual(whole, ParseIn(options, text, piece_bytes));
  ROOST_CHECK(IsSubsequence(whole.content, text) && IsSubsequence(whole.reasoning, text));
  const bool holds_a_mark = text.find_first_of("<[{") != std::string_view::npos;
  const bool is_plain = !holds_a_mark && options.reasoning_start != ReasoningStart::kInside;
  if (is_plain) ROOST_CHECK(whole.content == text);
  for (const ToolCall& call : whole.tool_calls) {
    ROOST_CHECK(!call.name.empty() && !call.arguments.empty());
    ROOST_CHECK(!is_checked || IsJsonObject(call.arguments));
  }
}

}  // namespace
}  // namespace roost::router

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  roost::router::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

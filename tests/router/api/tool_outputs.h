// Parses the output of a family of models, however it is cut into pieces.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/requests/tool_request.h"
#include "router/api/tool_parsers/output_parser.h"

namespace roost::router {

inline ToolSet TwoTools() {
  ToolSet tools;
  tools.functions = {{"get_weather", R"({"properties":{"city":{"type":"string"}}})"}, {"add", ""}};
  return tools;
}

inline FamilyOutputOptions OptionsFor(ToolFamily family, ReasoningForm reasoning = ReasoningForm::kNone) {
  FamilyOutputOptions options;
  options.family = {family, reasoning};
  options.tools = std::make_shared<const ToolSet>(TwoTools());
  options.ids.answer_id = "chatcmpl-1";
  if (reasoning == ReasoningForm::kNone) options.reasoning_start = ReasoningStart::kNever;
  return options;
}

inline ChoiceAnswer ParseIn(const FamilyOutputOptions& options, const std::vector<std::string_view>& pieces,
                            TextEnd end = TextEnd::kStopped) {
  const std::unique_ptr<OutputParser> parser = MakeFamilyOutput(options);
  ChoiceAnswer answer;
  for (const std::string_view piece : pieces) {
    AnswerDelta delta;
    parser->Push(piece, delta);
    answer.Append(std::move(delta));
  }
  AnswerDelta rest;
  parser->Finish(rest, end);
  answer.Append(std::move(rest));
  return answer;
}

// The answer as one line: reasoning | content | f{…} g{…}
inline std::string Line(const ChoiceAnswer& answer) {
  std::string line = answer.reasoning + "|" + answer.content + "|";
  for (const ToolCall& call : answer.tool_calls) line += call.name + call.arguments + " ";
  return line;
}

// Parses the text whole and byte by byte; the result must be the same.
inline std::string ParsedInBytes(const FamilyOutputOptions& options, std::string_view text) {
  const std::string whole = Line(ParseIn(options, {text}));
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(Line(ParseIn(options, bytes)), whole) << text;
  return whole;
}

// Also cut in two anywhere.
inline std::string Parsed(const FamilyOutputOptions& options, std::string_view text) {
  const std::string whole = ParsedInBytes(options, text);
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(Line(ParseIn(options, {text.substr(0, cut), text.substr(cut)})), whole) << text << " cut at " << cut;
  }
  return whole;
}

inline std::string Parsed(ToolFamily family, std::string_view text) { return Parsed(OptionsFor(family), text); }

}  // namespace roost::router

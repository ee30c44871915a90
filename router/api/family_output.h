// Makes the output parser of a choice, by the model's family.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/output_family.h"
#include "router/api/call_writer.h"
#include "router/api/output_parser.h"
#include "router/api/tool_set.h"

namespace roost::router {

enum class ReasoningStart : std::uint8_t {
  kOutside,  // a <think> opens it
  kInside,   // the prompt has opened it
  kNever,    // the prompt has closed it, or the answer is forced into a form
};

// Where an answer to `prompt`, a rendered one, begins.
[[nodiscard]] ReasoningStart ReasoningStartOf(OutputFamily family, std::string_view prompt);

// When is a call told? kAtOnce: with its arguments' first byte, which then go on as they come, whatever they become.
// kChecked: when its arguments are whole; if they are no JSON object, it is content.
enum class CallDelivery : std::uint8_t { kAtOnce, kChecked };

struct FamilyOutputOptions {
  OutputFamily family;
  ReasoningStart reasoning_start = ReasoningStart::kOutside;
  std::shared_ptr<const ToolSet> tools;    // never null
  std::vector<std::string> specials = {};  // markers that are special tokens: they are no text where they mean nothing
  CallIds ids;                             // its form is set here
  CallDelivery delivery = CallDelivery::kAtOnce;
};

[[nodiscard]] std::unique_ptr<OutputParser> MakeFamilyOutput(FamilyOutputOptions options);

// All that the family's parser looks for: where these are special tokens, it wants to see their texts.
[[nodiscard]] std::vector<std::string_view> MarkersOf(OutputFamily family);

}  // namespace roost::router

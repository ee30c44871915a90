// Makes the output parser that suits the model's family.
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
  kOutside,  // a <think> begins reasoning
  kInside,   // the prompt has already opened it
  kNever,    // the prompt has closed it, or a constraint sets the answer's form
};

// The part where an answer to the rendered `prompt` begins.
[[nodiscard]] ReasoningStart ReasoningStartOf(OutputFamily family, std::string_view prompt);

// The time when a call is reported. kAtOnce: at the first byte of its arguments, which are then passed on unchecked.
// kChecked: once its arguments are complete; if they are not a JSON object, the call becomes content.
enum class CallDelivery : std::uint8_t { kAtOnce, kChecked };

struct FamilyOutputOptions {
  OutputFamily family;
  ReasoningStart reasoning_start = ReasoningStart::kOutside;
  std::shared_ptr<const ToolSet> tools;    // never null
  std::vector<std::string> specials = {};  // markers that are special tokens: outside calls they are dropped
  CallIds ids;                             // MakeFamilyOutput sets its form
  CallDelivery delivery = CallDelivery::kAtOnce;
};

[[nodiscard]] std::unique_ptr<OutputParser> MakeFamilyOutput(FamilyOutputOptions options);

// All markers that the family's parser looks for. If they are special tokens, the parser needs them as text.
[[nodiscard]] std::vector<std::string_view> MarkersOf(OutputFamily family);

}  // namespace roost::router

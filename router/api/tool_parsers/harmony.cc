// Parses the output of gpt-oss, which writes messages, each with a header:
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
//   <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{…}<|call|>
//
// An answer begins inside a header. The channel analysis is reasoning, a message to functions.f is a call, a message to
// another tool is reasoning, everything else is content. Stop tokens do not reach the parser; the end of the text ends
// the message.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

class HarmonyParser final : public OutputParser {
 public:
  explicit HarmonyParser(FamilyOutputOptions options);

  void Push(std::string_view text, AnswerDelta& delta) override;
  void Finish(AnswerDelta& delta) override;
  [[nodiscard]] bool is_reasoning() const override { return state_ == State::kReasoning; }

 private:
  // kCallBegin: before the arguments' first byte.
  enum class State : std::uint8_t { kHeader, kReasoning, kContent, kCallBegin, kArguments };

  bool Step(AnswerDelta& delta);
  bool ReadHeader(AnswerDelta& delta);
  bool ReadMessage(AnswerDelta& delta);
  bool BeginCall(AnswerDelta& delta);
  void ApplyHeader(std::string_view header);
  void EndMessage(AnswerDelta& delta);
  void Tell(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] std::string_view rest() const { return std::string_view(pending_).substr(taken_); }

  const FamilyOutputOptions options_;
  CallWriter writer_;
  State state_ = State::kHeader;
  std::string pending_;
  std::size_t taken_ = 0;
  bool ended_ = false;
  std::string function_;
  std::string checked_;  // with kChecked: arguments that are not reported yet
};

constexpr std::size_t kMaxHeaderBytes = 1024;  // without its kMessage
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kFunctions = "functions.";

// Markers that begin a header or end a message.
const std::vector<std::string_view>& MessageEnds() {
  static const std::vector<std::string_view> ends{"<|start|>", kChannel, "<|end|>", "<|call|>", "<|return|>"};
  return ends;
}

// The word after `mark` in a header; empty when there is none.
std::string_view WordAfter(std::string_view header, std::string_view mark) {
  const std::size_t position = header.find(mark);
  if (position == std::string_view::npos) return {};
  header.remove_prefix(position + mark.size());
  return header.substr(0, header.find_first_of(" <\n\t"));
}

// True if `text` may be the beginning of a header; otherwise it is content.
bool IsHeader(std::string_view text) {
  for (const std::string_view start :
       {std::string_view("<|"), std::string_view("assistant"), std::string_view(" to="), std::string_view("to=")}) {
    if (text.substr(0, start.size()) == start || start.substr(0, text.size()) == text) return true;
  }
  return false;
}

// True if a header at the beginning of `text` is longer than kMaxHeaderBytes. Looks only at the bytes that decide it:
// the longest header and its kMessage. So it does not matter how much text has arrived.
bool IsTooLong(std::string_view text) {
  constexpr std::size_t kWindowBytes = kMaxHeaderBytes + kMessage.size();
  return text.size() >= kWindowBytes && text.substr(0, kWindowBytes).find(kMessage) == std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> HarmonyMarkers() {
  std::vector<std::string_view> markers = MessageEnds();
  markers.insert(markers.end(), {kMessage, "<|constrain|>"});
  return markers;
}

HarmonyParser::HarmonyParser(FamilyOutputOptions options) : options_(std::move(options)), writer_(options_.ids) {}

void HarmonyParser::Push(std::string_view text, AnswerDelta& delta) {
  pending_ += text;
  while (Step(delta)) continue;
  pending_.erase(0, std::exchange(taken_, 0));
}

void HarmonyParser::Finish(AnswerDelta& delta) {
  ended_ = true;
  while (Step(delta)) continue;
  EndMessage(delta);
}

bool HarmonyParser::Step(AnswerDelta& delta) {
  if (rest().empty()) return false;
  if (state_ == State::kHeader) return ReadHeader(delta);
  if (state_ == State::kCallBegin) return BeginCall(delta);
  return ReadMessage(delta);
}

bool HarmonyParser::ReadHeader(AnswerDelta&) {
  if (!IsHeader(rest()) || IsTooLong(rest())) {
    state_ = State::kContent;
    return true;
  }
  const std::size_t end = rest().find(kMessage);
  if (end == std::string_view::npos) {
    if (!ended_) return false;
    state_ = State::kContent;
    if (rest().substr(0, 2) == "<|") taken_ = pending_.size();  // an incomplete header has no content
    return true;
  }
  ApplyHeader(rest().substr(0, end));
  taken_ += end + kMessage.size();
  return true;
}

void HarmonyParser::ApplyHeader(std::string_view header) {
  std::string_view recipient = WordAfter(header, "to=");
  const std::string_view channel = WordAfter(header, kChannel);
  const bool is_function = recipient.substr(0, kFunctions.size()) == kFunctions;
  if (is_function) recipient.remove_prefix(kFunctions.size());
  if (is_function && options_.tools->is_used() && IsFunctionName(recipient)) {
    function_ = recipient;
    state_ = State::kCallBegin;
  } else if (channel == "analysis" || (!recipient.empty() && !is_function)) {
    state_ = State::kReasoning;
  } else {
    state_ = State::kContent;
  }
}

bool HarmonyParser::BeginCall(AnswerDelta& delta) {
  PartialText text(rest());
  text.SkipSpace();
  if (text.IsAt('{')) {
    taken_ += text.position();
    if (options_.delivery == CallDelivery::kAtOnce) writer_.Begin(std::exchange(function_, {}), delta);
    state_ = State::kArguments;
    return true;
  }
  if (text.cut() && !ended_) return false;
  state_ = State::kContent;
  return true;
}

bool HarmonyParser::ReadMessage(AnswerDelta& delta) {
  const std::string_view text = rest();
  if (const std::optional<FoundMark> found = FindMark(text, MessageEnds())) {
    Tell(text.substr(0, found->position), delta);
    EndMessage(delta);
    const bool begins_header = found->mark == "<|start|>" || found->mark == kChannel;
    taken_ += found->position + (begins_header ? 0 : found->mark.size());
    state_ = begins_header ? State::kHeader : State::kContent;
    if (begins_header && found->position == 0 && IsTooLong(text)) {
      taken_ += found->mark.size();
      state_ = State::kContent;
    }
    return true;
  }
  const std::size_t held = ended_ ? 0 : OpenMarkBytes(text, MessageEnds());
  Tell(text.substr(0, text.size() - held), delta);
  taken_ += text.size() - held;
  return false;
}

void HarmonyParser::Tell(std::string_view text, AnswerDelta& delta) {
  if (state_ == State::kReasoning) delta.reasoning += text;
  if (state_ == State::kContent) delta.content += text;
  if (state_ != State::kArguments) return;
  if (options_.delivery == CallDelivery::kChecked) {
    checked_ += text;
  } else {
    writer_.Arguments(text, delta);
  }
}

// A call whose arguments are not a JSON object becomes content.
void HarmonyParser::EndMessage(AnswerDelta& delta) {
  if (state_ != State::kArguments || options_.delivery == CallDelivery::kAtOnce) return;
  const std::string arguments = std::exchange(checked_, {});
  if (!IsJsonObject(arguments)) {
    delta.content += arguments;
    return;
  }
  writer_.Begin(std::exchange(function_, {}), delta);
  writer_.Arguments(arguments, delta);
}

std::unique_ptr<OutputParser> MakeHarmonyParser(FamilyOutputOptions options) {
  return std::make_unique<HarmonyParser>(std::move(options));
}

}  // namespace roost::router

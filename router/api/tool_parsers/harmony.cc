// Parses the output of gpt-oss, which writes messages, each with a header:
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
//   <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{…}<|call|>
//
// An answer begins inside a header. The channel analysis is reasoning, a message to functions.f is a call, a message to
// another tool is reasoning, everything else is content. Stop tokens do not reach the parser; the end of the text ends
// the message. A header that lacks one of its markers is still read: its words are known.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/lenient_json.h"
#include "router/api/tool_parsers/output_parser.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

class HarmonyParser final : public OutputParser {
 public:
  explicit HarmonyParser(FamilyOutputOptions options);

  void Push(std::string_view text, AnswerDelta& delta) override;
  void Finish(AnswerDelta& delta, TextEnd end) override;
  [[nodiscard]] bool is_reasoning() const override { return state_ == State::kReasoning; }

 private:
  // kCallBegin: before the arguments' first byte; kCallEnd: behind their last.
  enum class State : std::uint8_t { kHeader, kReasoning, kContent, kCallBegin, kArguments, kCallEnd };

  bool Step(AnswerDelta& delta);
  bool ReadHeader(AnswerDelta& delta);
  bool ReadMessage(AnswerDelta& delta);
  bool BeginCall(AnswerDelta& delta);
  bool ReadArguments(AnswerDelta& delta);
  void ApplyHeader(std::string_view header);
  void EndArguments(AnswerDelta& delta);
  void Tell(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] std::string_view rest() const { return std::string_view(pending_).substr(taken_); }

  const FamilyOutputOptions options_;
  CallWriter writer_;
  State state_ = State::kHeader;
  std::string pending_;
  std::size_t taken_ = 0;
  bool ended_ = false;
  TextEnd end_ = TextEnd::kCut;
  std::string function_;
  LenientJson arguments_;
  bool is_told_ = false;  // the call
  std::string held_;      // arguments that are not reported yet
};

constexpr std::size_t kMaxHeaderBytes = 1024;  // without its kMessage
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kToFunction = "to=functions.";
constexpr std::string_view kStart = "<|start|>";

// Markers that begin a header or end a message.
const std::vector<std::string_view>& MessageEnds() {
  static const std::vector<std::string_view> ends{kStart, kChannel, "<|end|>", "<|call|>", "<|return|>"};
  return ends;
}

// Markers in front of which a header must have ended.
const std::vector<std::string_view>& HeaderEnds() {
  static const std::vector<std::string_view> ends{kStart, "<|end|>", "<|call|>", "<|return|>"};
  return ends;
}

const std::vector<std::string_view>& AllMarkers() {
  static const std::vector<std::string_view> markers = HarmonyMarkers();
  return markers;
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
  for (const std::string_view start : {"<|", "assistant", " to=", "to=", "commentary to=", "analysis<|message|>",
                                       "commentary<|message|>", "final<|message|>"}) {
    if (text.substr(0, start.size()) == start || start.substr(0, text.size()) == text) return true;
  }
  return false;
}

// The size of a header that lacks its kMessage: the words and markers at the beginning of `text` that belong to one.
std::size_t KnownHeaderSize(std::string_view text) {
  PartialText header(text);
  const auto take_any = [&header](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&header](std::string_view word) { return header.Take(word); });
  };
  while (true) {
    const std::size_t before = header.position();
    if (header.Take("<|start|>")) (void)take_any({"assistant"});
    if (header.Take(kChannel)) (void)take_any({"analysis", "commentary", "final"});
    header.SkipSpace();
    if (header.Take("to=")) (void)header.TakeUntil(" <{\n\t");
    header.SkipSpace();
    if (header.Take("<|constrain|>") || header.rest().starts_with("json{")) (void)take_any({"json"});
    header.SkipSpace();
    if (header.position() == before) return before;
  }
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

void HarmonyParser::Finish(AnswerDelta& delta, TextEnd end) {
  ended_ = true;
  end_ = end;
  while (Step(delta)) continue;
  if (state_ == State::kCallBegin || state_ == State::kArguments) EndArguments(delta);
}

bool HarmonyParser::Step(AnswerDelta& delta) {
  if (rest().empty()) return false;
  switch (state_) {
    case State::kHeader: return ReadHeader(delta);
    case State::kCallBegin: return BeginCall(delta);
    case State::kArguments: return ReadArguments(delta);
    default: return ReadMessage(delta);
  }
}

bool HarmonyParser::ReadHeader(AnswerDelta&) {
  const std::string_view text = rest();
  if (!IsHeader(text)) {
    state_ = State::kContent;
    return true;
  }
  // Where it ends if it lacks its kMessage.
  const std::size_t begin = text.starts_with(kStart) ? kStart.size() : 0;
  const std::optional<FoundMark> other = FindMark(text.substr(begin), HeaderEnds());
  const std::size_t object = text.find('{');
  const bool is_call = text.substr(0, object).find(kToFunction) != std::string_view::npos;
  const std::size_t end =
      std::min({text.size(), other ? begin + other->position : text.size(), is_call ? object : std::string_view::npos});
  const std::size_t message = text.find(kMessage);
  if (message < end) {
    if (!IsTooLong(text)) {
      ApplyHeader(text.substr(0, message));
      taken_ += message + kMessage.size();
      return true;
    }
  } else if (end < text.size() || (ended_ && !IsTooLong(text) && text.find("<|") < text.size())) {
    const std::size_t known = KnownHeaderSize(text.substr(0, end));
    if (known > 0) {
      ApplyHeader(text.substr(0, known));
      if (state_ == State::kCallBegin && end != object) state_ = State::kContent;
      taken_ += known;
      // A marker that the end cuts off is no text.
      if (ended_ && end == text.size() && OpenMarkBytes(rest(), AllMarkers()) == rest().size())
        taken_ = pending_.size();
      return true;
    }
  } else if (!IsTooLong(text)) {
    return false;
  }
  state_ = State::kContent;
  return true;
}

void HarmonyParser::ApplyHeader(std::string_view header) {
  std::string_view recipient = WordAfter(header, "to=");
  std::string_view channel = WordAfter(header, kChannel);
  if (channel.empty()) channel = header.substr(0, header.find_first_of(" <"));
  const bool is_function = recipient.substr(0, kFunctions.size()) == kFunctions;
  if (is_function) recipient.remove_prefix(kFunctions.size());
  if (is_function && options_.tools->is_used() && IsFunctionName(recipient)) {
    function_ = recipient;
    arguments_ = LenientJson();
    is_told_ = false;
    state_ = State::kCallBegin;
  } else if (channel == "analysis" || (!recipient.empty() && !is_function)) {
    state_ = State::kReasoning;
  } else {
    state_ = State::kContent;
  }
}

bool HarmonyParser::BeginCall(AnswerDelta& delta) {
  PartialText text(rest());
  text.SkipAll(kMessage);
  const bool is_object = text.IsAt('{');
  if (is_object || text.IsAt('"') || text.IsAt('\'')) {
    taken_ += text.position();
    if (is_object && options_.delivery == CallDelivery::kAtOnce) {
      writer_.Begin(std::exchange(function_, {}), delta);
      is_told_ = true;
    }
    state_ = State::kArguments;
    return true;
  }
  const std::optional<FoundMark> end = FindMark(text.rest(), MessageEnds());
  if (end && end->position == 0) {
    taken_ += text.position();
    held_ = "{}";
    EndArguments(delta);
    return true;
  }
  const bool may_end = OpenMarkBytes(text.rest(), MessageEnds()) == text.rest().size();
  if ((text.cut() || may_end) && !ended_) return false;
  if (text.rest().empty()) return false;
  state_ = State::kContent;
  return true;
}

bool HarmonyParser::ReadArguments(AnswerDelta& delta) {
  std::string piece;
  taken_ += arguments_.Read(rest(), piece);
  is_told_ ? writer_.Arguments(piece, delta) : void(held_ += piece);
  if (!arguments_.ended()) return false;
  EndArguments(delta);
  return true;
}

// A call that has not been told becomes content where its arguments are no JSON object.
void HarmonyParser::EndArguments(AnswerDelta& delta) {
  const bool is_empty = state_ == State::kCallBegin && held_.empty();
  state_ = State::kCallEnd;
  std::string last;
  arguments_.Finish(last);
  if (is_told_) return writer_.Arguments(last, delta);
  std::string text = std::exchange(held_, {}) + last;
  if (is_empty && end_ == TextEnd::kStopped) text = "{}";
  const std::optional<std::string> arguments = ArgumentsOf(text);
  if (!arguments) {
    delta.content += text;
    return;
  }
  writer_.Begin(std::exchange(function_, {}), delta);
  writer_.Arguments(*arguments, delta);
}

bool HarmonyParser::ReadMessage(AnswerDelta& delta) {
  const std::string_view text = rest();
  if (const std::optional<FoundMark> found = FindMark(text, MessageEnds())) {
    Tell(text.substr(0, found->position), delta);
    const bool begins_header = found->mark == kStart || found->mark == kChannel;
    taken_ += found->position + (begins_header ? 0 : found->mark.size());
    state_ = State::kHeader;
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
  // Behind a call only white space and brackets too many are no text.
  if (state_ == State::kCallEnd) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \n\t\r}]")));
    if (!text.empty()) state_ = State::kContent;
    delta.content += text;
  }
}

std::unique_ptr<OutputParser> MakeHarmonyParser(FamilyOutputOptions options) {
  return std::make_unique<HarmonyParser>(std::move(options));
}

}  // namespace roost::router

// Text with markers in it: reasoning in its tags in front, calls after it.
//
//   kOpening ─ its tag ─► kThinking ─ its end ─► kAfterThinking ─► kContent
//      └───────────────────── other text ──────────────────────────────▲
//
//   kContent ─ begin marker ─► kHead ─► kArguments ─► kTail ─► kContent
//      ▲                        │  ▲                    │
//      └──────── no call ───────┘  └─── another call ───┘
//
// kChecked takes the place of kArguments with CallDelivery::kChecked, and where what follows decides whether it is a
// call: arguments that a string holds, arguments in front of the name, a call without its begin marker. It can also end
// in "no call". If a family's head has the whole call, kTail follows kHead.
//
// Each state looks at the text that is not reported yet and takes the part that no later text can change. So how the
// text is split into pieces affects only how it is split into deltas. White space around a call belongs to the family's
// syntax and is dropped.

#include <algorithm>
#include <cstdint>
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

// A bounded head and a tail are decided by this many bytes, however many have arrived. Longer text is not a call.
constexpr std::size_t kMaxHeadBytes = 4096;

class TaggedOutputParser final : public OutputParser {
 public:
  // `form` may be null; then the parser does not look for calls.
  TaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form);

  void Push(std::string_view text, AnswerDelta& delta) override;
  void Finish(AnswerDelta& delta, TextEnd end) override;
  [[nodiscard]] bool is_reasoning() const override { return state_ == State::kThinking; }

 private:
  enum class State : std::uint8_t { kOpening, kThinking, kAfterThinking, kContent, kHead, kArguments, kTail, kChecked };

  // Each returns whether it changed anything.
  bool Step(AnswerDelta& delta);
  bool Open(AnswerDelta& delta);
  bool Think(AnswerDelta& delta);
  bool SkipLineBreaks();
  bool ReadContent(AnswerDelta& delta);
  // The place of a call without a marker, before `end`.
  struct BareBegin {
    std::size_t at = 0;
    BareCall call;
  };
  [[nodiscard]] std::optional<BareBegin> FindBare(std::string_view text, std::size_t end) const;
  void BeginHead(std::string_view marker, BareCall::Needs needs);
  bool ReadHead(AnswerDelta& delta);
  bool ReadArguments(AnswerDelta& delta);
  bool CheckArguments(AnswerDelta& delta);
  // Reads on behind the arguments of a call that is not reported yet.
  [[nodiscard]] FormVerdict ReadBehindHeld();
  bool ReadTail(AnswerDelta& delta);

  void TakeCall(CallHead head, AnswerDelta& delta);
  // The begin marker and `size` bytes after it become content.
  void RefuseCall(std::size_t size, AnswerDelta& delta);
  [[nodiscard]] bool IsKnown(const CallHead& head) const;
  void Say(std::string_view text, AnswerDelta& delta);
  void SayMarker(std::string_view marker, AnswerDelta& delta);
  // Adds content that may hold markers; those that are special tokens are dropped.
  void SayMarked(std::string_view text, AnswerDelta& delta);
  void Reason(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] bool IsSpecial(std::string_view marker) const;

  [[nodiscard]] std::string_view rest() const { return std::string_view(pending_).substr(taken_); }
  void Take(std::size_t size) { taken_ += size; }
  // Takes content.
  void Tell(std::size_t size, AnswerDelta& delta);

  const FamilyOutputOptions options_;
  const ReasoningTags think_;
  const std::unique_ptr<CallForm> form_;
  std::vector<std::string_view> begins_;
  std::vector<std::string_view> marks_;  // begin markers and stray markers
  CallWriter writer_;
  State state_ = State::kOpening;
  std::string pending_;
  std::size_t taken_ = 0;  // of pending_
  bool ended_ = false;
  TextEnd end_ = TextEnd::kCut;
  std::size_t opening_space_ = 0;  // bytes of white space at the beginning, not reported yet
  bool said_ = false;              // content or a call has begun
  bool after_call_ = false;        // only white space since the last call
  std::string space_;              // after the content so far; dropped if a call follows
  std::string line_breaks_;        // after the reasoning so far; dropped if it ends there
  bool reasoned_ = false;
  // A tag stood out of place since the last call: a call that lacks its begin marker is not trusted then.
  bool strayed_ = false;
  bool line_begin_ = true;  // only white space since the last line break of the content
  std::string_view head_marker_;
  bool needs_known_name_ = false;
  BareCall::Needs needs_ = BareCall::Needs::kNothing;
  LenientJson arguments_;
  // With kChecked: a call that is not reported yet, at the beginning of rest().
  struct Held {
    std::string name;
    std::string arguments;
    std::size_t size = 0;  // so far
    bool has_arguments = false;
  } held_;
};

}  // namespace

TaggedOutputParser::TaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form)
    : options_(std::move(options)),
      think_(TagsOf(options_.family.reasoning)),
      form_(std::move(form)),
      writer_(options_.ids) {
  if (form_ != nullptr) {
    begins_ = form_->Begins();
    marks_ = begins_;
    for (const std::string_view mark : form_->Strays()) marks_.push_back(mark);
  }
  if (options_.reasoning_start == ReasoningStart::kInside) state_ = State::kThinking;
  if (options_.reasoning_start == ReasoningStart::kNever) state_ = State::kContent;
}

void TaggedOutputParser::Push(std::string_view text, AnswerDelta& delta) {
  pending_ += text;
  while (Step(delta)) continue;
  pending_.erase(0, std::exchange(taken_, 0));
}

void TaggedOutputParser::Finish(AnswerDelta& delta, TextEnd end) {
  ended_ = true;
  end_ = end;
  while (Step(delta)) continue;
  if (state_ == State::kArguments) {
    std::string last;
    arguments_.Finish(last);
    writer_.Arguments(last, delta);
  }
  if (!after_call_) delta.content += std::exchange(space_, {});
}

bool TaggedOutputParser::Step(AnswerDelta& delta) {
  switch (state_) {
    case State::kOpening: return Open(delta);
    case State::kThinking: return Think(delta);
    case State::kAfterThinking: return SkipLineBreaks();
    case State::kContent: return ReadContent(delta);
    case State::kHead: return ReadHead(delta);
    case State::kArguments: return ReadArguments(delta);
    case State::kTail: return ReadTail(delta);
    case State::kChecked: return CheckArguments(delta);
  }
  return false;
}

// ---- reasoning ----

bool TaggedOutputParser::Open(AnswerDelta&) {
  while (opening_space_ < rest().size() && IsSpace(rest()[opening_space_])) ++opening_space_;
  PartialText text(rest().substr(opening_space_));
  if (text.Take(think_.begin)) {
    Take(opening_space_ + text.position());
    state_ = State::kThinking;
    return true;
  }
  if (text.cut() && !ended_) return false;
  state_ = State::kContent;
  return true;
}

bool TaggedOutputParser::Think(AnswerDelta& delta) {
  const std::string_view text = rest();
  const std::size_t end = text.find(think_.end);
  if (end != std::string_view::npos) {
    Reason(text.substr(0, end), delta);
    Take(end + think_.end.size());
    state_ = State::kAfterThinking;
    return true;
  }
  const std::size_t held = ended_ ? 0 : OpenMarkBytes(text, {think_.end});
  if (held == text.size()) return false;
  Reason(text.substr(0, text.size() - held), delta);
  Take(text.size() - held);
  return false;
}

// Line breaks at the beginning and the end of reasoning belong to its markers and are dropped.
void TaggedOutputParser::Reason(std::string_view text, AnswerDelta& delta) {
  if (!reasoned_) text.remove_prefix(std::min(text.size(), text.find_first_not_of('\n')));
  if (text.empty()) return;
  reasoned_ = true;
  const std::size_t size = text.find_last_not_of('\n') + 1;  // 0 when there is nothing else
  if (size > 0) {
    delta.reasoning += std::exchange(line_breaks_, {});
    delta.reasoning += text.substr(0, size);
  }
  line_breaks_ += text.substr(size);
}

bool TaggedOutputParser::SkipLineBreaks() {
  const std::size_t size = std::min(rest().size(), rest().find_first_not_of('\n'));
  Take(size);
  if (rest().empty()) return false;
  state_ = State::kContent;
  return true;
}

// ---- content ----

bool TaggedOutputParser::ReadContent(AnswerDelta& delta) {
  if (rest().empty()) return false;
  const std::string_view text = rest();
  const std::optional<FoundMark> found = FindMark(text, marks_);
  if (const auto bare = FindBare(text, found ? found->position : text.size())) {
    Tell(bare->at, delta);
    if (bare->call.verdict == FormVerdict::kMore) return false;
    said_ = true;
    BeginHead({}, bare->call.needs);
    return true;
  }
  if (!found) {
    const std::size_t held = ended_ ? 0 : OpenMarkBytes(text, marks_);
    Tell(text.size() - held, delta);
    return false;
  }
  Tell(found->position, delta);
  Take(found->mark.size());
  line_begin_ = false;
  const bool is_begin = std::find(begins_.begin(), begins_.end(), found->mark) != begins_.end();
  if (is_begin && (!strayed_ || !form_->NeedsKnownName(found->mark))) {
    BeginHead(found->mark, BareCall::Needs::kNothing);
  } else if (!after_call_) {
    strayed_ = true;
    SayMarker(found->mark, delta);
  }
  return true;
}

void TaggedOutputParser::Tell(std::size_t size, AnswerDelta& delta) {
  const std::string_view text = rest().substr(0, size);
  const std::size_t line = text.rfind('\n');
  if (line != std::string_view::npos) line_begin_ = true;
  const std::string_view last = line == std::string_view::npos ? text : text.substr(line);
  if (!std::all_of(last.begin(), last.end(), &IsSpace)) line_begin_ = false;
  Say(text, delta);
  Take(size);
}

void TaggedOutputParser::BeginHead(std::string_view marker, BareCall::Needs needs) {
  head_marker_ = marker;
  needs_ = needs;
  // In a family's own markers a call behind another needs no second one.
  if (!marker.empty() || !after_call_) needs_known_name_ = form_->NeedsKnownName(marker) && !after_call_;
  line_begin_ = false;
  form_->Reset(marker);
  state_ = State::kHead;
}

std::optional<TaggedOutputParser::BareBegin> TaggedOutputParser::FindBare(std::string_view text,
                                                                          std::size_t end) const {
  if (form_ == nullptr || strayed_) return std::nullopt;
  std::size_t line = line_begin_ ? 0 : text.find('\n');
  while (line < end) {
    std::size_t at = line;
    while (at < end && IsSpace(text[at])) ++at;
    if (at < end && form_->MayBeginBare(text[at])) {
      const BarePlace place = said_ || line > 0 ? BarePlace::kLine : BarePlace::kAnswer;
      const BareCall call = form_->ReadBare(text.substr(at, kMaxHeadBytes), place, *options_.tools);
      const bool is_open = call.verdict == FormVerdict::kMore && !ended_ && text.size() - at < kMaxHeadBytes;
      if (call.verdict == FormVerdict::kFound || is_open) return BareBegin{at, call};
    }
    line = text.find('\n', at);
  }
  return std::nullopt;
}

void TaggedOutputParser::Say(std::string_view text, AnswerDelta& delta) {
  if (text.empty()) return;
  if (form_ == nullptr) {
    delta.content += text;
    return;
  }
  std::size_t size = text.size();
  while (size > 0 && IsSpace(text[size - 1])) --size;
  if (size > 0) {
    said_ = true;
    after_call_ = false;
    delta.content += std::exchange(space_, {});
    delta.content += text.substr(0, size);
  }
  space_ += text.substr(size);
}

bool TaggedOutputParser::IsSpecial(std::string_view marker) const {
  return std::find(options_.specials.begin(), options_.specials.end(), marker) != options_.specials.end();
}

void TaggedOutputParser::SayMarker(std::string_view marker, AnswerDelta& delta) {
  if (!IsSpecial(marker)) Say(marker, delta);
}

void TaggedOutputParser::SayMarked(std::string_view text, AnswerDelta& delta) {
  while (const std::optional<FoundMark> found = FindMark(text, marks_)) {
    Say(text.substr(0, found->position), delta);
    SayMarker(found->mark, delta);
    text.remove_prefix(found->position + found->mark.size());
  }
  Say(text, delta);
}

// ---- calls ----

bool TaggedOutputParser::ReadHead(AnswerDelta& delta) {
  if (rest().empty() && !ended_) return false;
  const std::size_t max_bytes = form_->is_whole() ? std::string_view::npos : kMaxHeadBytes;
  CallHead head = form_->ReadHead(rest().substr(0, max_bytes));
  if (head.verdict == FormVerdict::kMore && rest().size() >= max_bytes) head = CallHead();
  if (head.verdict == FormVerdict::kMore) {
    if (!ended_) return false;
    head = end_ == TextEnd::kStopped ? form_->ReadLastHead(rest()) : CallHead();
    if (head.verdict != FormVerdict::kFound) head = {.size = rest().size()};
  }
  if (head.verdict == FormVerdict::kFound && IsKnown(head)) {
    TakeCall(std::move(head), delta);
  } else {
    RefuseCall(head.size, delta);
  }
  return true;
}

// Without a marker, it is a call only if the request has a function with that name.
bool TaggedOutputParser::IsKnown(const CallHead& head) const {
  if (!needs_known_name_ || head.name_place == CallHead::Name::kLate) return true;
  const auto is_known = [&](const std::string& name) { return options_.tools->Find(name) != nullptr; };
  if (!head.name.empty()) return is_known(head.name);
  return std::all_of(head.whole.begin(), head.whole.end(), [&](const ToolCall& call) { return is_known(call.name); });
}

void TaggedOutputParser::TakeCall(CallHead head, AnswerDelta& delta) {
  const bool has_arguments = !head.name.empty() || head.name_place == CallHead::Name::kLate;
  const bool is_held = has_arguments ? options_.delivery == CallDelivery::kChecked || head.name.empty() ||
                                           needs_ == BareCall::Needs::kEndMarker || rest().substr(head.size, 1) != "{"
                                     : needs_ == BareCall::Needs::kEndMarker;
  arguments_ = LenientJson();
  if (is_held && state_ == State::kHead) {
    held_ = {.name = std::move(head.name), .arguments = {}, .size = head.size};
    if (!has_arguments) {
      held_.name = std::move(head.whole.front().name);
      held_.arguments = std::move(head.whole.front().arguments);
    }
    held_.has_arguments = !has_arguments;
    state_ = State::kChecked;
    return;
  }
  Take(head.size);
  space_.clear();
  said_ = true;
  strayed_ = false;
  after_call_ = true;
  for (ToolCall& call : head.whole) {
    writer_.Begin(std::move(call.name), delta);
    writer_.Arguments(call.arguments, delta);
  }
  state_ = State::kTail;
  if (head.name.empty()) return;
  writer_.Begin(std::move(head.name), delta);
  state_ = State::kArguments;
}

void TaggedOutputParser::RefuseCall(std::size_t size, AnswerDelta& delta) {
  strayed_ = strayed_ || !head_marker_.empty();
  SayMarker(head_marker_, delta);
  SayMarked(rest().substr(0, size), delta);
  Take(size);
  state_ = State::kContent;
}

bool TaggedOutputParser::ReadArguments(AnswerDelta& delta) {
  if (rest().empty()) return false;
  std::string piece;
  const std::size_t size = arguments_.Read(rest(), piece);
  writer_.Arguments(piece, delta);
  Take(size);
  if (!arguments_.ended()) return false;
  state_ = State::kTail;
  return true;
}

// A call that is none after all becomes content.
bool TaggedOutputParser::CheckArguments(AnswerDelta& delta) {
  if (!held_.has_arguments) {
    held_.size += arguments_.Read(rest().substr(held_.size), held_.arguments);
    if (!arguments_.ended() && !ended_) return false;
    arguments_.Finish(held_.arguments);
    std::optional<std::string> arguments = arguments_.is_whole() ? ArgumentsOf(held_.arguments) : std::nullopt;
    held_.has_arguments = arguments.has_value();
    if (arguments) held_.arguments = *std::move(arguments);
  }
  const FormVerdict verdict = held_.has_arguments ? ReadBehindHeld() : FormVerdict::kNone;
  if (verdict == FormVerdict::kMore && !ended_) return false;
  if (verdict != FormVerdict::kFound) {
    RefuseCall(held_.size, delta);
    return true;
  }
  ToolCall call{.id = {}, .name = std::move(held_.name), .arguments = std::move(held_.arguments)};
  TakeCall({.size = held_.size, .whole = {std::move(call)}}, delta);
  return true;
}

FormVerdict TaggedOutputParser::ReadBehindHeld() {
  const auto behind = [this] { return rest().substr(held_.size, kMaxHeadBytes); };
  if (held_.name.empty()) {
    CallHead late = form_->ReadLateName(behind());
    if (late.verdict != FormVerdict::kFound || !IsKnown(late)) {
      return behind().size() < kMaxHeadBytes && late.verdict == FormVerdict::kMore ? late.verdict : FormVerdict::kNone;
    }
    held_.name = std::move(late.name);
    held_.size += late.size;
  }
  if (needs_ != BareCall::Needs::kEndMarker) return FormVerdict::kFound;
  const CallTail tail = form_->ReadTail(behind());
  if (tail.verdict == FormVerdict::kMore && behind().size() < kMaxHeadBytes) return FormVerdict::kMore;
  const bool is_marked = tail.verdict == FormVerdict::kFound && tail.end == CallTail::End::kMarked;
  return is_marked ? FormVerdict::kFound : FormVerdict::kNone;
}

bool TaggedOutputParser::ReadTail(AnswerDelta&) {
  const CallTail tail = form_->ReadTail(rest().substr(0, kMaxHeadBytes));
  if (tail.verdict == FormVerdict::kMore && rest().size() < kMaxHeadBytes) {
    if (!ended_) return false;
    Take(std::min(tail.size, rest().size()));
    // An incomplete tail is dropped, but not a word.
    const std::string_view last = Trimmed(rest());
    if (last.empty() || !IsFunctionName(last)) Take(rest().size());
    state_ = State::kContent;
    return !rest().empty();
  }
  Take(tail.size);
  head_marker_ = {};
  needs_ = BareCall::Needs::kNothing;
  line_begin_ = true;  // a call ends a line
  state_ = tail.next == CallTail::Next::kCall ? State::kHead : State::kContent;
  return true;
}

std::unique_ptr<OutputParser> MakeTaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form) {
  return std::make_unique<TaggedOutputParser>(std::move(options), std::move(form));
}

}  // namespace roost::router

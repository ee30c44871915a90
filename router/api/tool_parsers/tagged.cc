// Text with markers in it: <think> in front, calls after it.
//
//   kOpening ─ <think> ─► kThinking ─ </think> ─► kAfterThinking ─► kContent
//      └───────────────────── other text ──────────────────────────────▲
//
//   kContent ─ begin marker ─► kHead ─► kArguments ─► kTail ─► kContent
//      ▲                        │  ▲                    │
//      └──────── no call ───────┘  └─── another call ───┘
//
// With CallDelivery::kChecked, kChecked takes the place of kArguments, and can also end in "no call". If a family's
// head has the whole call, kTail follows kHead.
//
// Each state looks at the text that is not reported yet and takes the part that no later text can change. So how the
// text is split into pieces affects only how it is split into deltas. White space around a call belongs to the family's
// syntax and is dropped.

#include <algorithm>
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

class TaggedOutputParser final : public OutputParser {
 public:
  // `form` may be null; then the parser does not look for calls.
  TaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form);

  void Push(std::string_view text, AnswerDelta& delta) override;
  void Finish(AnswerDelta& delta) override;
  [[nodiscard]] bool is_reasoning() const override { return state_ == State::kThinking; }

 private:
  enum class State : std::uint8_t { kOpening, kThinking, kAfterThinking, kContent, kHead, kArguments, kTail, kChecked };

  // Each returns whether it changed anything.
  bool Step(AnswerDelta& delta);
  bool Open(AnswerDelta& delta);
  bool Think(AnswerDelta& delta);
  bool SkipLineBreaks();
  bool ReadContent(AnswerDelta& delta);
  bool BeginBare();
  bool ReadHead(AnswerDelta& delta);
  bool ReadArguments(AnswerDelta& delta);
  bool CheckArguments(AnswerDelta& delta);
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

  const FamilyOutputOptions options_;
  const std::unique_ptr<CallForm> form_;
  std::vector<std::string_view> begins_;
  std::vector<std::string_view> marks_;  // begin markers and stray markers
  CallWriter writer_;
  State state_ = State::kOpening;
  std::string pending_;
  std::size_t taken_ = 0;  // of pending_
  bool ended_ = false;
  std::size_t opening_space_ = 0;  // bytes of white space at the beginning, not reported yet
  bool said_ = false;              // content or a call has begun
  bool after_call_ = false;        // only white space since the last call
  std::string space_;              // after the content so far; dropped if a call follows
  std::string line_breaks_;        // after the reasoning so far; dropped if it ends there
  bool reasoned_ = false;
  std::string_view head_marker_;
  JsonSpan arguments_;
  // With kChecked: a call that is not reported yet. Its head and arguments are at the beginning of rest().
  std::string checked_name_;
  std::size_t checked_head_ = 0;
  std::size_t checked_size_ = 0;  // of head and arguments, so far
};

// A bounded head and a tail are decided by this many bytes, however many have arrived. Longer text is not a call.
constexpr std::size_t kMaxHeadBytes = 4096;

}  // namespace

TaggedOutputParser::TaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form)
    : options_(std::move(options)), form_(std::move(form)), writer_(options_.ids) {
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

void TaggedOutputParser::Finish(AnswerDelta& delta) {
  ended_ = true;
  while (Step(delta)) continue;
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
  if (text.Take(kThinkBegin)) {
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
  const std::size_t end = text.find(kThinkEnd);
  if (end != std::string_view::npos) {
    Reason(text.substr(0, end), delta);
    Take(end + kThinkEnd.size());
    state_ = State::kAfterThinking;
    return true;
  }
  const std::size_t held = ended_ ? 0 : OpenMarkBytes(text, {kThinkEnd});
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
  if (BeginBare()) return true;
  const std::string_view text = rest();
  const std::optional<FoundMark> found = FindMark(text, marks_);
  if (!found) {
    const std::size_t held = ended_ ? 0 : OpenMarkBytes(text, marks_);
    Say(text.substr(0, text.size() - held), delta);
    Take(text.size() - held);
    return false;
  }
  Say(text.substr(0, found->position), delta);
  Take(found->position + found->mark.size());
  if (std::find(begins_.begin(), begins_.end(), found->mark) == begins_.end()) {
    SayMarker(found->mark, delta);
    return true;
  }
  head_marker_ = found->mark;
  form_->Reset();
  state_ = State::kHead;
  return true;
}

// Begins a call without a marker, at the beginning of the answer.
bool TaggedOutputParser::BeginBare() {
  if (form_ == nullptr || form_->bare_begin() == '\0' || said_) return false;
  std::size_t space = 0;
  while (space < rest().size() && IsSpace(rest()[space])) ++space;
  space_ += rest().substr(0, space);
  Take(space);
  if (rest().empty()) return false;
  said_ = true;
  if (rest().front() != form_->bare_begin()) return false;
  head_marker_ = {};
  state_ = State::kHead;
  return true;
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
    RefuseCall(rest().size(), delta);  // otherwise the loop would never end
    return true;
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
  if (!head_marker_.empty() || writer_.count() > 0) return true;
  const auto is_known = [&](const std::string& name) { return options_.tools->Find(name) != nullptr; };
  if (!head.name.empty()) return is_known(head.name);
  return std::all_of(head.whole.begin(), head.whole.end(), [&](const ToolCall& call) { return is_known(call.name); });
}

void TaggedOutputParser::TakeCall(CallHead head, AnswerDelta& delta) {
  if (!head.name.empty() && options_.delivery == CallDelivery::kChecked && state_ == State::kHead) {
    checked_name_ = std::move(head.name);
    checked_head_ = checked_size_ = head.size;
    arguments_ = JsonSpan();
    state_ = State::kChecked;
    return;
  }
  Take(head.size);
  space_.clear();
  said_ = true;
  after_call_ = true;
  for (ToolCall& call : head.whole) {
    writer_.Begin(std::move(call.name), delta);
    writer_.Arguments(call.arguments, delta);
  }
  state_ = State::kTail;
  if (head.name.empty()) return;
  writer_.Begin(std::move(head.name), delta);
  arguments_ = JsonSpan();
  state_ = State::kArguments;
}

void TaggedOutputParser::RefuseCall(std::size_t size, AnswerDelta& delta) {
  SayMarker(head_marker_, delta);
  SayMarked(rest().substr(0, size), delta);
  Take(size);
  state_ = State::kContent;
}

bool TaggedOutputParser::ReadArguments(AnswerDelta& delta) {
  if (rest().empty()) return false;
  const std::size_t size = arguments_.Read(rest());
  writer_.Arguments(rest().substr(0, size), delta);
  Take(size);
  if (!arguments_.done()) return false;
  state_ = State::kTail;
  return true;
}

// A call whose arguments are not a JSON object becomes content.
bool TaggedOutputParser::CheckArguments(AnswerDelta& delta) {
  checked_size_ += arguments_.Read(rest().substr(checked_size_));
  if (!arguments_.done() && !ended_) return false;
  const std::string arguments(rest().substr(checked_head_, checked_size_ - checked_head_));
  if (!IsJsonObject(arguments)) {
    RefuseCall(checked_size_, delta);
    return true;
  }
  TakeCall({.size = checked_size_, .whole = {{.id = {}, .name = std::move(checked_name_), .arguments = arguments}}},
           delta);
  return true;
}

bool TaggedOutputParser::ReadTail(AnswerDelta&) {
  const CallTail tail = form_->ReadTail(rest().substr(0, kMaxHeadBytes));
  if (tail.verdict == FormVerdict::kMore && rest().size() < kMaxHeadBytes) {
    if (ended_) Take(rest().size());  // an incomplete tail is dropped
    return false;
  }
  Take(tail.size);
  head_marker_ = {};
  state_ = tail.next == CallTail::Next::kCall ? State::kHead : State::kContent;
  return true;
}

std::unique_ptr<OutputParser> MakeTaggedOutputParser(FamilyOutputOptions options, std::unique_ptr<CallForm> form) {
  return std::make_unique<TaggedOutputParser>(std::move(options), std::move(form));
}

}  // namespace roost::router

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
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/call_form.h"
#include "router/api/family_output.h"
#include "router/api/partial_text.h"

namespace roost::router {

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";

class MarkedOutput final : public OutputParser {
 public:
  // `form` may be null; then the parser does not look for calls.
  MarkedOutput(FamilyOutputOptions options, std::unique_ptr<CallForm> form);

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

}  // namespace roost::router

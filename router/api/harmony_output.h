// Parses the output of gpt-oss, which writes messages, each with a header:
//
//   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
//   <|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{…}<|call|>
//
// An answer begins inside a header. The channel analysis is reasoning, a message to functions.f is a call, a message to
// another tool is reasoning, everything else is content. Stop tokens do not reach the parser; the end of the text ends
// the message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/family_output.h"

namespace roost::router {

class HarmonyOutput final : public OutputParser {
 public:
  explicit HarmonyOutput(FamilyOutputOptions options);

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

[[nodiscard]] std::vector<std::string_view> HarmonyMarkers();

}  // namespace roost::router

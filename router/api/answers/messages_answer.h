// Answers in the form of Anthropic's Messages API: blocks of content, and events with names.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "router/api/answer.h"
#include "router/api/answers/answer_blocks.h"

namespace roost::router {

struct MessageIdentity {
  std::string id;  // "msg_…"
  std::string model;
  Diagnosis diagnosis = Diagnosis::kOmit;
};

class MessagesAnswer final : public AnswerFormat {
 public:
  explicit MessagesAnswer(MessageIdentity identity);

  [[nodiscard]] CallDelivery call_delivery() const override { return CallDelivery::kChecked; }
  [[nodiscard]] std::string Begin(const Usage& usage) override;
  [[nodiscard]] std::string Continue(std::uint32_t choice, const AnswerDelta& delta, const Usage& usage) override;
  [[nodiscard]] std::string EndChoice(std::uint32_t choice, const ChoiceFinish& finish, const Usage& usage) override;
  [[nodiscard]] std::string End(const Usage& usage) override;
  [[nodiscard]] std::string Fail(const Error& error) override;
  [[nodiscard]] std::string Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) override;
  [[nodiscard]] HttpResponse FailureResponse(const Error& error, Duration retry_after) const override;

 private:
  const MessageIdentity identity_;
  AnswerBlocks blocks_;
  ChoiceFinish finish_;
};

// {"type":"error","error":{"type","message"}}, with the same status and headers as in the other APIs.
[[nodiscard]] HttpResponse MessagesErrorResponse(const Error& error, Duration retry_after);

}  // namespace roost::router

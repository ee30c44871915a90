// Answers in the form of OpenAI's Responses API: items of output, and typed events with sequence numbers. Nothing is
// stored. The answer repeats fields of the request, as clients expect.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/answer.h"
#include "router/api/answers/answer_blocks.h"
#include "router/api/requests/chat_translation.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {

struct ResponseIdentity {
  std::string id;      // "resp_…"
  std::string suffix;  // of its items' ids; differs between responses
  std::int64_t created_unix_seconds = 0;
  std::string model;
  ResponseEcho echo;
  ToolNames tool_names;
};

class ResponsesAnswer final : public AnswerFormat {
 public:
  explicit ResponsesAnswer(ResponseIdentity identity);

  [[nodiscard]] std::string Begin(const Usage& usage) override;
  [[nodiscard]] std::string Continue(std::uint32_t choice, const AnswerDelta& delta, const Usage& usage) override;
  [[nodiscard]] std::string EndChoice(std::uint32_t choice, const ChoiceFinish& finish, const Usage& usage) override;
  [[nodiscard]] std::string End(const Usage& usage) override;
  [[nodiscard]] std::string Fail(const Error& error) override;
  [[nodiscard]] std::string Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) override;

 private:
  class EventSink;

  // One event; `members` are the members after its type, as JSON without braces, or empty.
  [[nodiscard]] std::string Event(std::string_view type, std::string_view members);
  // An event about the whole response.
  [[nodiscard]] std::string ResponseEvent(std::string_view type, std::string_view status, const Usage* usage);
  [[nodiscard]] std::string ResponseText(std::string_view status, const Usage* usage) const;
  // The client's name for the tool of the block's call.
  [[nodiscard]] ClientTool ToolOf(const AnswerBlock& block) const;
  [[nodiscard]] bool IsCustom(const AnswerBlock& block) const;
  [[nodiscard]] std::string ItemId(const AnswerBlock& block) const;
  // With the status "in_progress" the item has no text; otherwise it has its final text.
  [[nodiscard]] std::string ItemText(const AnswerBlock& block, std::string_view status) const;
  void AddItem(const AnswerBlock& block);

  const ResponseIdentity identity_;
  AnswerBlocks blocks_;
  CustomInput custom_input_;  // of the open block, if that is a custom tool's call
  ChoiceFinish finish_;
  std::string items_;  // of the output so far, as JSON, separated by commas
  std::uint64_t sequence_number_ = 0;
};

}  // namespace roost::router

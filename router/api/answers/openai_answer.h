// Answers in the form of OpenAI's chat completions and completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/text/tokenizer.h"
#include "router/api/answer.h"
#include "router/api/answers/answer_blocks.h"
#include "router/api/requests/chat_translation.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/sampling_fields.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {

enum class AnswerKind { kChat, kCompletion };

// The fields that all parts of one answer have in common.
struct AnswerIdentity {
  AnswerKind kind = AnswerKind::kChat;
  std::string id;  // "chatcmpl-…" or "cmpl-…"
  std::int64_t created_unix_seconds = 0;
  std::string model;
  std::string system_fingerprint;
};

struct OpenAiAnswerOptions {
  std::shared_ptr<const Tokenizer> tokenizer;  // the model's; gives tokens' texts for log probabilities
  UsageReport usage_report = UsageReport::kNever;
  TokenIdReport token_ids = TokenIdReport::kOmit;
  Logprobs logprobs = Logprobs::kOmit;  // of the answer, and of an echoed prompt
  Echo echo = Echo::kNone;
  std::set<std::string, std::less<>> custom_tools = {};  // tools whose calls hold a text
  Diagnosis diagnosis = Diagnosis::kOmit;
};

class OpenAiAnswer final : public AnswerFormat {
 public:
  OpenAiAnswer(AnswerIdentity identity, OpenAiAnswerOptions options);

  [[nodiscard]] std::string Begin(const Usage& usage) override;
  [[nodiscard]] std::string Continue(std::uint32_t choice, const AnswerDelta& delta, const Usage& usage) override;
  [[nodiscard]] std::string EndChoice(std::uint32_t choice, const ChoiceFinish& finish, const Usage& usage) override;
  [[nodiscard]] std::string End(const Usage& usage) override;
  [[nodiscard]] std::string Fail(const Error& error) override;
  [[nodiscard]] std::string Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) override;

 private:
  struct Chunk;

  [[nodiscard]] bool IsChat() const { return identity_.kind == AnswerKind::kChat; }
  // The JSON up to and including the opening bracket of `choices`.
  [[nodiscard]] std::string HeadOf(std::string_view object) const;
  void BeginHead(std::string_view object, JsonWriter& json) const;
  void AppendChunk(const Chunk& chunk, const Usage& usage, std::string& frames);
  // Appends a chat's chunk that holds only text.
  void AppendContent(std::uint32_t choice, std::string_view content, const Usage& usage, std::string& frames) const;
  void EndChunk(const Usage& usage, std::string& frames) const;
  // Appends the chunk with the role; once for each choice.
  void AppendRole(std::uint32_t choice, const Usage& usage, std::string& frames);
  // The calls of a delta as JSON, separated by commas.
  [[nodiscard]] std::string CallDeltas(std::uint32_t choice, const AnswerDelta& delta);
  // The rest of the text of the choice's open call of a custom tool, if there is one.
  [[nodiscard]] std::string CloseCustomCall(std::uint32_t choice);
  [[nodiscard]] bool HasDetails(const AnswerDelta& delta) const;
  // Details of tokens, in addition to the text. `Part` is an AnswerDelta or a ChoiceAnswer.
  template <typename Part>
  void WriteLogprobs(std::uint32_t choice, const Part& part, JsonWriter& json);
  template <typename Part>
  void WriteTokens(const Part& part, JsonWriter& json) const;

  const AnswerIdentity identity_;
  const OpenAiAnswerOptions options_;
  const std::string chunk_head_;
  std::vector<bool> has_role_;  // by choice
  // By choice: the call of a custom tool that is not whole yet.
  struct OpenCall {
    std::uint32_t index = 0;
    CustomInput input;
  };
  std::map<std::uint32_t, OpenCall> custom_calls_;
  std::vector<std::size_t> text_offsets_;  // by choice: characters of the tokens so far
};

// One server-sent event.
[[nodiscard]] std::string Frame(std::string_view json);
inline constexpr std::string_view kDoneFrame = "data: [DONE]\n\n";

[[nodiscard]] std::string_view NameOf(AnswerFinish reason);

// Answers in the form of OpenAI's Responses API: items of output, and typed events with sequence numbers. Nothing is
// stored. The answer repeats fields of the request, as clients expect.
struct ResponseIdentity {
  std::string id;      // "resp_…"
  std::string suffix;  // of its items' ids; differs between responses
  std::int64_t created_unix_seconds = 0;
  std::string model;
  ResponseEcho echo;
  ToolNames tool_names;
  Diagnosis diagnosis = Diagnosis::kOmit;
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
  [[nodiscard]] std::string PartText(BlockKind kind, std::string_view text) const;
  [[nodiscard]] std::string ItemId(const AnswerBlock& block) const;
  // With the status "in_progress" the item has no text; otherwise it has its final text.
  [[nodiscard]] std::string ItemText(const AnswerBlock& block, std::string_view status) const;
  void AddItem(const AnswerBlock& block);

  const ResponseIdentity identity_;
  const bool has_summaries_;  // reasoning stands in summaries, as the request wants
  AnswerBlocks blocks_;
  CustomInput custom_input_;  // of the open block, if that is a custom tool's call
  ChoiceFinish finish_;
  std::string items_;  // of the output so far, as JSON, separated by commas
  std::uint64_t sequence_number_ = 0;
};

}  // namespace roost::router

// An answer, whatever API it is told in: what its choices say, piece by piece, and the form in which that goes to the
// client.
//
//   tokens ─► ChoiceText ─► OutputParser ─► AnswerDelta ─► AnswerFormat ─► server-sent events, or one body
//             text, stops   tool calls,                    OpenAI's chat and completions, responses, messages
//                           reasoning
//
// Generation drives it. All of it belongs to one connection's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"
#include "router/http/http_message.h"

namespace roost::router {

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;     // of the prompt, whose KV the worker had
  std::uint32_t reasoning_tokens = 0;  // of the completion
};

// A piece of a tool call. Calls of one choice follow each other: a piece belongs to the last one that has begun.
struct ToolCallDelta {
  std::uint32_t index = 0;  // 0, 1, … within the choice
  std::string id;           // with the call's first piece, as the name is
  std::string name;
  std::string arguments;  // JSON text, put together from all pieces
};

// What a choice says next. Every part may be empty.
struct AnswerDelta {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;
  std::vector<TokenId> tokens;                // that this came from
  std::vector<wire::TokenLogprobs> logprobs;  // of them, where they are wanted
  // With a choice's first one, where they are wanted. The first token has no log probability.
  std::vector<TokenId> prompt_tokens;
  std::vector<wire::TokenLogprobs> prompt_logprobs;

  [[nodiscard]] bool has_text() const { return !content.empty() || !reasoning.empty() || !tool_calls.empty(); }
};

enum class AnswerFinish : std::uint8_t { kStop, kLength, kToolCalls };

struct ChoiceFinish {
  AnswerFinish reason = AnswerFinish::kStop;
  // The stop string, or the stop token of the request's own, that ended it.
  std::variant<std::monostate, std::string, TokenId> stopped_by;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
};

// A whole choice.
struct ChoiceAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  std::vector<TokenId> tokens;
  std::vector<wire::TokenLogprobs> logprobs;
  std::vector<TokenId> prompt_tokens;
  std::vector<wire::TokenLogprobs> prompt_logprobs;
  ChoiceFinish finish;

  void Append(AnswerDelta delta);
};

// One answer in the form of one API. Calls of a stream, in this order; each gives whole server-sent events, or nothing:
//
//   Begin  (Continue* EndChoice, for each choice; choices come mixed)  End | Fail
//
// An answer that is not streamed is Whole alone. A failure before anything was sent is FailureResponse.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // `usage` is what is known of the prompt by now.
  [[nodiscard]] virtual std::string Begin(const Usage& usage) = 0;
  // The first one of a choice may be empty: it says that the choice has begun.
  [[nodiscard]] virtual std::string Continue(std::uint32_t choice, const AnswerDelta& delta, const Usage& usage) = 0;
  [[nodiscard]] virtual std::string EndChoice(std::uint32_t choice, const ChoiceFinish& finish, const Usage& usage) = 0;
  [[nodiscard]] virtual std::string End(const Usage& usage) = 0;
  [[nodiscard]] virtual std::string Fail(const Error& error) = 0;

  [[nodiscard]] virtual std::string Whole(std::span<const ChoiceAnswer> choices, const Usage& usage) = 0;
  [[nodiscard]] virtual HttpResponse FailureResponse(const Error& error, Duration retry_after) const {
    return ErrorResponse(error, retry_after);
  }
};

}  // namespace roost::router

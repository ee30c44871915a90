// An answer, independent of the API: the pieces of its choices, and the formats in which clients get them.
//
//   tokens ─► ChoiceText ─► OutputParser ─► AnswerDelta ─► AnswerFormat ─► server-sent events, or one body
//             text, stops   tool calls,                    OpenAI's chat and completions, responses, messages
//                           reasoning
//
// Generation drives it. Everything here runs on one connection's thread.
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
#include "common/http/http_message.h"
#include "common/wire/messages.h"
#include "router/route/log/cache_verdict.h"

namespace roost::router {

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;        // prompt tokens whose KV the worker had cached
  std::uint32_t written_tokens = 0;       // others of them, whose blocks the request added to the cache
  std::uint32_t written_hour_tokens = 0;  // of these, those that are to stay for an hour or longer
  std::uint32_t reasoning_tokens = 0;     // of the completion
  PromptComparison comparison = {};
  CacheVerdict verdict = {};
};

// Whether an answer says what became of the prompt's cache.
enum class Diagnosis : std::uint8_t { kOmit, kTell };

// A piece of a tool call. The calls of one choice do not overlap: a piece belongs to the call that began last.
struct ToolCallDelta {
  std::uint32_t index = 0;  // 0, 1, … within the choice
  std::string id;           // set in the call's first piece, like the name
  std::string name;
  std::string arguments;  // a piece of JSON text
};

// The next piece of a choice. Every part may be empty.
struct AnswerDelta {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;
  std::vector<TokenId> tokens;                // from which this piece was made
  std::vector<wire::TokenLogprobs> logprobs;  // of `tokens`, if the request asked for them
  // Set in a choice's first piece, if the request asked for them. A prompt's first token has no log probability.
  std::vector<TokenId> prompt_tokens;
  std::vector<wire::TokenLogprobs> prompt_logprobs;

  [[nodiscard]] bool has_text() const { return !content.empty() || !reasoning.empty() || !tool_calls.empty(); }
};

enum class AnswerFinish : std::uint8_t { kStop, kLength, kToolCalls };

struct ChoiceFinish {
  AnswerFinish reason = AnswerFinish::kStop;
  // The stop string, or the request's own stop token, that ended the choice.
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

// The time when a call is reported, the same in a stream and in one body. kAtOnce: at the first byte of its arguments;
// those that break off do not parse. kChecked: once its arguments are complete; if they are not a JSON object, the call
// becomes content.
enum class CallDelivery : std::uint8_t { kAtOnce, kChecked };

// Writes one answer in the form of one API. For a stream, Generation calls these functions in this order; each returns
// whole server-sent events, or nothing:
//
//   Begin  (Continue* EndChoice, for each choice; the choices interleave)  End | Fail
//
// For an answer that is not streamed it calls only Whole. FailureResponse is for a failure before anything was sent.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // kChecked for an API whose calls have objects, not texts.
  [[nodiscard]] virtual CallDelivery call_delivery() const { return CallDelivery::kAtOnce; }
  // `usage` holds what is known about the prompt so far.
  [[nodiscard]] virtual std::string Begin(const Usage& usage) = 0;
  // The first call for a choice announces it, so its delta may be empty.
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

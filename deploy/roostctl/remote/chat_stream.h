// One answer of a chat: the request's body, and the streamed answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/router_access.h"
#include "deploy/roostctl/remote/router_call.h"

namespace roost::roostctl {

// A streamed answer of /v1/chat/completions or /v1/completions, read event by event.

// The answer as the client saw it. Times are since the start that the reader was given.
struct ChatAnswer {
  std::string error;       // empty when the whole answer came
  std::string error_kind;  // for counting: no connection, timeout, status 429, error event, cut off or not JSON
  bool stopped = false;    // the client's StopWhen ended it: incomplete, but not an error
  std::string worker;
  std::string text;
  double ttft_seconds = 0;
  double total_seconds = 0;
  std::vector<double> piece_seconds;  // when each event with text or reasoning came
  std::uint64_t prompt_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;  // empty: the endpoint does not tell
  std::uint64_t output_tokens = 0;
};

// kReasoning is what a model thinks before it answers; it does not enter ChatAnswer::text.
enum class AnswerPart { kText, kReasoning };
using OnAnswer = std::function<void(AnswerPart part, std::string_view text)>;

// Not thread-safe.
class AnswerEvents {
 public:
  // `clock` outlives it. `on_answer` may be empty.
  AnswerEvents(const Clock& clock, Instant start, OnAnswer on_answer);
  ~AnswerEvents();
  AnswerEvents(const AnswerEvents&) = delete;
  AnswerEvents& operator=(const AnswerEvents&) = delete;

  // The data of one event.
  void Take(std::string_view data);
  // The stream is over. Sets the error if it was refused, cut off, or never came. An endpoint that counts no tokens has
  // as many output tokens as it sent pieces.
  [[nodiscard]] ChatAnswer End(const Result<HttpResponse>& response);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class UseCache { kNo, kYes };

struct ChatTurn {
  std::string role;
  std::string text;
};

// The request's fields besides its messages. For an absent one, the router's or the model's default applies.
struct ChatFields {
  std::string model;
  std::optional<std::uint32_t> max_tokens;
  std::optional<int> temperature;
  UseCache cache = UseCache::kYes;
  bool ignore_eos = false;  // of Roost, vLLM and others: the answer has max_tokens tokens
};

// The body of POST /v1/chat/completions for a streamed answer with token counts.
[[nodiscard]] std::string ChatBody(const ChatFields& fields, const std::vector<ChatTurn>& turns);
// The same of POST /v1/completions.
[[nodiscard]] std::string CompletionBody(const ChatFields& fields, std::string_view prompt);

// Sends `body`, and calls `on_answer` with each piece as it arrives.
[[nodiscard]] ChatAnswer AskChat(HttpClient& client, const std::string& body, const OnAnswer& on_answer);

// kUnavailable when the router at `router` serves no model yet.
[[nodiscard]] Result<std::string> FirstModel(const RouterAccess& router);

}  // namespace roost::roostctl

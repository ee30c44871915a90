// One answer of a chat: the request's body, and the streamed answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/http_client.h"
#include "deploy/roostctl/router_access.h"

namespace roost::roostctl {

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
};

// The body of POST /v1/chat/completions for a streamed answer with token counts.
[[nodiscard]] std::string ChatBody(const ChatFields& fields, const std::vector<ChatTurn>& turns);

// The answer as the client saw it.
struct ChatAnswer {
  std::string error;     // empty when the whole answer came
  bool stopped = false;  // the client's StopWhen ended it: incomplete, but not an error
  std::string worker;
  std::string text;
  double ttft_seconds = 0;
  double total_seconds = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t output_tokens = 0;
};

// kReasoning is what a model thinks before it answers; it does not enter ChatAnswer::text.
enum class AnswerPart { kText, kReasoning };
using OnAnswer = std::function<void(AnswerPart part, std::string_view text)>;

// Sends `body`, and calls `on_answer` with each piece as it arrives.
[[nodiscard]] ChatAnswer AskChat(HttpClient& client, const std::string& body, const OnAnswer& on_answer);

// kUnavailable when the router at `router` serves no model yet.
[[nodiscard]] Result<std::string> FirstModel(const RouterAccess& router);

}  // namespace roost::roostctl

// One answer of a chat: the request's body, and the streamed answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "deploy/roostctl/answer_events.h"
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

// Requests of other APIs as the chat request that means the same: JSON text for chat_request.h, which then checks
// tools, sampling and the rest as for a chat. So what a chat can do they can, in one place.
//
// What a translation reads itself is checked here; an error names the member of the client's own request. …FieldOf
// turns a chat's field in any other error back into the client's, and leaves the client's own as they are. Fields that
// stand in no table are left out, as in a chat.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "router/api/chat_request.h"
#include "router/api/json_object.h"
#include "router/api/request_field.h"
#include "router/api/responses_answer.h"

namespace roost::router {

// Anthropic's Messages API, POST /v1/messages. CountTokens is the same without max_tokens, which counting needs not.
[[nodiscard]] Result<std::string> ChatOfMessages(const JsonObject& body);
[[nodiscard]] Result<std::string> ChatOfCountTokens(const JsonObject& body);
[[nodiscard]] std::string MessagesFieldOf(std::string_view chat_field);

// OpenAI's Responses API, POST /v1/responses.
[[nodiscard]] Result<std::string> ChatOfResponses(const JsonObject& body);
[[nodiscard]] std::string ResponsesFieldOf(std::string_view chat_field);

// Translated and read.
[[nodiscard]] Result<ChatRequest> ParseMessagesRequest(const JsonObject& body);
[[nodiscard]] Result<ChatRequest> ParseCountTokensRequest(const JsonObject& body);
struct ResponsesRequest {
  ChatRequest chat;
  ResponseEcho echo;
};
[[nodiscard]] Result<ResponsesRequest> ParseResponsesRequest(const JsonObject& body);

// ---- for the translations ----

// A chat's body under way.
struct ChatWriter {
  JsonWriter json;       // its members, but for the messages
  std::string messages;  // as JSON, with commas between
  std::string system;    // a message that goes before them, as JSON; may be empty
  bool thinks = false;   // does the client ask for reasoning?

  void AddMessage(std::string_view message);
};

[[nodiscard]] std::span<const RequestField<ChatWriter>> MessagesFieldTable();
[[nodiscard]] std::span<const RequestField<ChatWriter>> ResponsesFieldTable();

// A field that a chat has by the same name, and checks.
[[nodiscard]] Result<void> CopyField(JsonElement element, const std::string& path, ChatWriter& chat);

// The fields of the table, and Roost's own about cache and queue.
[[nodiscard]] Result<void> TranslateFields(const JsonObject& body, std::span<const RequestField<ChatWriter>> fields,
                                           ChatWriter& chat);
[[nodiscard]] std::string FinishChat(ChatWriter& chat);

// Writes the members of `object` with these names as they are, those that it has.
void CopyMembers(const JsonObject& object, std::initializer_list<std::string_view> names, JsonWriter& json);

// A text that must be there.
[[nodiscard]] Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name);

}  // namespace roost::router

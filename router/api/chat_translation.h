// Translates requests of other APIs into chat requests: JSON text for chat_request.h, which then checks tools, sampling
// and the rest. So these APIs can do what a chat can, and the checks stand in one place.
//
// A translation checks the members that it reads itself; its errors name the members of the client's request. …FieldOf
// turns the name of a chat's field in a later error into the client's name for it. Unknown fields are left out, as in a
// chat.
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

// Anthropic's Messages API, POST /v1/messages. CountTokens is the same without max_tokens.
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
  bool thinks = false;   // whether the client asks for reasoning

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

// A required text.
[[nodiscard]] Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name);

}  // namespace roost::router

// Translates requests of other APIs into chat requests: JSON text for chat_request.h, which then checks tools, sampling
// and the rest. So these APIs can do what a chat can, and the checks are in one place.
//
// A translation checks the members that it reads itself; its errors name the members of the client's request. A later
// error may name a chat's field; …FieldOf turns that into the client's name for it. Unknown fields are ignored, as in a
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

// Translate a body and parse the resulting chat.
[[nodiscard]] Result<ChatRequest> ParseMessagesRequest(const JsonObject& body);
[[nodiscard]] Result<ChatRequest> ParseCountTokensRequest(const JsonObject& body);
struct ResponsesRequest {
  ChatRequest chat;
  ResponseEcho echo;
};
[[nodiscard]] Result<ResponsesRequest> ParseResponsesRequest(const JsonObject& body);

// ---- for the translations ----

// A chat's body while it is being written.
struct ChatWriter {
  JsonWriter json;       // its members, except the messages
  std::string messages;  // as JSON, separated by commas
  std::string system;    // a message that goes before `messages`, as JSON; may be empty
  bool thinks = false;   // whether the client asks for reasoning

  void AddMessage(std::string_view message);
};

[[nodiscard]] std::span<const RequestField<ChatWriter>> MessagesFieldTable();
[[nodiscard]] std::span<const RequestField<ChatWriter>> ResponsesFieldTable();

// For a field that has the same name in a chat; the chat's parser checks it.
[[nodiscard]] Result<void> CopyField(JsonElement element, const std::string& path, ChatWriter& chat);

// A row for such a field.
[[nodiscard]] constexpr RequestField<ChatWriter> SameField(std::string_view name, std::string_view description) {
  return {name, description, Own<ChatWriter>{"{}", &CopyField}};
}

// Translates the fields of the table, and Roost's own fields for cache and queue.
[[nodiscard]] Result<void> TranslateFields(const JsonObject& body, std::span<const RequestField<ChatWriter>> fields,
                                           ChatWriter& chat);
[[nodiscard]] std::string FinishChat(ChatWriter& chat);

// Copies those of the named members that `object` has, unchanged.
void CopyMembers(const JsonObject& object, std::initializer_list<std::string_view> names, JsonWriter& json);

// A required member of type string.
[[nodiscard]] Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name);

}  // namespace roost::router

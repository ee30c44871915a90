#include "router/api/chat_translation.h"

#include <utility>

#include "router/api/cache_fields.h"

namespace roost::router {
namespace {

Result<ChatRequest> ReadTranslation(Result<std::string> chat) {
  if (!chat.ok()) return chat.error();
  JsonBody json(std::move(chat).value());
  ROOST_ASSIGN_OR_RETURN(const JsonObject body, json.Parse());
  return ParseChatRequest(body);
}

}  // namespace

Result<ChatRequest> ParseMessagesRequest(const JsonObject& body) { return ReadTranslation(ChatOfMessages(body)); }

Result<ChatRequest> ParseCountTokensRequest(const JsonObject& body) { return ReadTranslation(ChatOfCountTokens(body)); }

Result<ResponsesRequest> ParseResponsesRequest(const JsonObject& body) {
  ResponsesRequest request;
  ROOST_ASSIGN_OR_RETURN(request.chat, ReadTranslation(ChatOfResponses(body)));
  request.echo = EchoOfResponses(body);
  return request;
}

// ---- for the translations ----

void ChatWriter::AddMessage(std::string_view message) {
  if (!messages.empty()) messages += ',';
  messages += message;
}

Result<void> CopyField(JsonElement element, const std::string& path, ChatWriter& chat) {
  chat.json.Key(path).Raw(simdjson::minify(element));
  return {};
}

Result<void> TranslateFields(const JsonObject& body, std::span<const RequestField<ChatWriter>> fields,
                             ChatWriter& chat) {
  chat.json.BeginObject();
  ROOST_RETURN_IF_ERROR(ReadFields(body, fields, chat));
  for (const RequestField<CacheFields>& field : CacheFieldTable()) CopyMembers(body, {field.name}, chat.json);
  return {};
}

std::string FinishChat(ChatWriter& chat) {
  const bool has_both = !chat.system.empty() && !chat.messages.empty();
  chat.json.Key("messages").Raw("[" + chat.system + (has_both ? "," : "") + chat.messages + "]").EndObject();
  return chat.json.Take();
}

void CopyMembers(const JsonObject& object, std::initializer_list<std::string_view> names, JsonWriter& json) {
  for (const std::string_view name : names) {
    if (const std::optional<JsonElement> element = object.Find(name)) json.Key(name).Raw(simdjson::minify(*element));
  }
}

Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, object.String(name));
  if (!text) return InvalidArgument(object.PathOf(name), "is missing");
  return *text;
}

}  // namespace roost::router

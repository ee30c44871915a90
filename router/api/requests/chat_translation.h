// Translates requests of other APIs into chat requests: JSON text for chat_request.h, which then checks tools, sampling
// and the rest. So these APIs can do what a chat can, and the checks are in one place.
//
// A translation checks the members that it reads itself; its errors name the members of the client's request. A later
// error may name a chat's field; …FieldOf turns that into the client's name for it, and a message's or tool's error
// names the item that it came from. Unknown fields are ignored and counted, as in a chat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "router/api/json_object.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/request_field.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {

struct Translation {
  std::string chat;  // a chat's body
  // The client's names for the items that the chat's messages and tools were made from, by index: "input[3]".
  std::vector<std::string> message_origins;
  std::vector<std::string> tool_origins;
  std::uint32_t unknown_field_count = 0;
  std::uint32_t dropped_reasoning_count = 0;  // items of reasoning that belong to no message
  ToolNames tool_names;
};

// Anthropic's Messages API, POST /v1/messages. CountTokens is the same without max_tokens.
[[nodiscard]] Result<Translation> ChatOfMessages(const JsonObject& body);
[[nodiscard]] Result<Translation> ChatOfCountTokens(const JsonObject& body);
[[nodiscard]] std::string MessagesFieldOf(std::string_view chat_field);

// OpenAI's Responses API, POST /v1/responses.
[[nodiscard]] Result<Translation> ChatOfResponses(const JsonObject& body);
[[nodiscard]] std::string ResponsesFieldOf(std::string_view chat_field);

// Translate a body and parse the resulting chat.
[[nodiscard]] Result<ChatRequest> ParseMessagesRequest(const JsonObject& body);
[[nodiscard]] Result<ChatRequest> ParseCountTokensRequest(const JsonObject& body);

// The request's fields that the answer repeats, each as JSON text.
struct ResponseEcho {
  std::string instructions = "null";
  std::string max_output_tokens = "null";
  std::string metadata = "{}";
  std::string parallel_tool_calls = "true";
  std::string reasoning = R"({"effort":null,"summary":null})";
  std::string temperature = "null";
  std::string text = R"({"format":{"type":"text"}})";
  std::string tool_choice = R"("auto")";
  std::string tools = "[]";
  std::string top_p = "null";
  std::string user = "null";
};

[[nodiscard]] ResponseEcho EchoOfResponses(const JsonObject& body);
// All of its text, in bytes.
[[nodiscard]] std::size_t SizeOf(const ResponseEcho& echo);

struct ResponsesRequest {
  ChatRequest chat;
  ResponseEcho echo;
  ToolNames tool_names;
};
[[nodiscard]] Result<ResponsesRequest> ParseResponsesRequest(const JsonObject& body);

// ---- for the translations ----

// A text that is made of parts, with the marks for the cache behind some of them.
struct MarkedText {
  std::string text;
  struct Mark {
    std::size_t bytes;   // of the text before it
    std::string member;  // the part's member, as JSON with its name
  };
  std::vector<Mark> marks;

  // Marks the text so far, if the part has a mark, which is checked.
  [[nodiscard]] Result<void> MarkEnd(const JsonObject& part);
};
// A string, or the parts of a chat between marks. A line break divides parts.
void WriteContent(const MarkedText& content, JsonWriter& json);
// The same member, with a comma before it; empty without a mark.
[[nodiscard]] Result<std::string> CacheMarkOf(const JsonObject& part);

// A chat's body while it is being written.
struct ChatWriter {
  JsonWriter json;         // its members, except the messages
  std::string messages;    // as JSON, separated by commas
  std::string tools;       // the same
  std::string system;      // a message that goes before `messages`, as JSON; may be empty
  bool thinks = false;     // whether the client asks for reasoning
  bool continues = false;  // whether the answer goes on with the last message
  Translation result;      // but for its chat; message_origins without the system's
  std::set<std::string, std::less<>> tool_names_seen;

  // `origin`: the client's name for the item, for errors.
  void AddMessage(std::string_view message, std::string_view origin);
  void AddTool(std::string_view tool, std::string_view origin);
};

[[nodiscard]] std::span<const RequestField<ChatWriter>> MessagesFieldTable();
[[nodiscard]] std::span<const RequestField<ChatWriter>> ResponsesFieldTable();

// For a field that has the same name in a chat; the chat's parser checks it.
[[nodiscard]] Result<void> CopyField(JsonElement element, const std::string& path, ChatWriter& chat);

// Fields of a chat that have one name and effect in all APIs: the form of the answer, and how tokens are drawn.
[[nodiscard]] std::span<const RequestField<ChatWriter>> SharedFieldTable();

// Translates the fields of the table, the guided ones, and Roost's own for cache and queue.
[[nodiscard]] Result<void> TranslateFields(const JsonObject& body, std::span<const RequestField<ChatWriter>> fields,
                                           ChatWriter& chat);
// `system_field`: the client's name for the field of `system`.
[[nodiscard]] Translation FinishChat(ChatWriter& chat, std::string_view system_field);

// Copies those of the named members that `object` has, unchanged.
void CopyMembers(const JsonObject& object, std::initializer_list<std::string_view> names, JsonWriter& json);

// A required member of type string.
[[nodiscard]] Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name);

}  // namespace roost::router

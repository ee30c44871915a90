// Anthropic's Messages API → chat.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "router/api/requests/chat_translation.h"

namespace roost::router {
namespace {

// ---- content ----

// The text of a block, behind those before it. Blocks become lines, as in vLLM.
void AddLine(std::string_view line, std::optional<std::string>& text) {
  text ? text->append("\n").append(line) : text.emplace(line);
}

// Claude Code begins its system text with a line for Anthropic's accounts, with a hash that differs in each request. It
// says nothing to a model, and with it no prompt would begin as the one before.
std::string_view WithoutAccountLine(std::string_view text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  return text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
}

// ---- texts in other blocks ----

// This server writes none, so a client that wants them must know.
Result<void> CheckCitations(const JsonObject& block) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> citations, block.Object("citations"));
  if (!citations) return {};
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> wanted, citations->Bool("enabled"));
  if (!wanted.value_or(false)) return {};
  return InvalidArgument(citations->PathOf("enabled"), "must be false: this server writes no citations");
}

// The members of the block that are texts, as lines.
Result<std::string> TextMembers(const JsonObject& block, std::initializer_list<std::string_view> names) {
  std::optional<std::string> all;
  for (const std::string_view name : names) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, block.String(name));
    if (text && !text->empty()) AddLine(*text, all);
  }
  return std::move(all).value_or("");
}

Result<MarkedText> TextOfContent(JsonElement content, const std::string& path,
                                 std::string_view (*cut)(std::string_view));
std::string_view AsItIs(std::string_view text) { return text; }

Result<std::string> ContentOf(const JsonObject& block) {
  const std::optional<JsonElement> content = block.Find("content");
  if (!content) return InvalidArgument(block.PathOf("content"), "is missing");
  ROOST_ASSIGN_OR_RETURN(MarkedText text, TextOfContent(*content, block.PathOf("content"), &AsItIs));
  return std::move(text.text);
}

// {"type": "document", "title": "…", "context": "…", "source": {"type": "text", "data": "…"} | {"type": "content", …}}
Result<std::string> TextOfDocument(const JsonObject& block) {
  ROOST_RETURN_IF_ERROR(CheckCitations(block));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> source, block.Object("source"));
  if (!source) return InvalidArgument(block.PathOf("source"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(*source, "type"));
  if (type != "text" && type != "content") {
    return InvalidArgument(source->PathOf("type"), "must be text or content: this server reads no files");
  }
  ROOST_ASSIGN_OR_RETURN(const std::string head, TextMembers(block, {"title", "context"}));
  std::optional<std::string> all;
  if (!head.empty()) all = head;
  if (type == "text") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view data, RequiredText(*source, "data"));
    AddLine(data, all);
  } else {
    ROOST_ASSIGN_OR_RETURN(const std::string data, ContentOf(*source));
    AddLine(data, all);
  }
  return std::move(all).value_or("");
}

// The text of a block that may stand in a user's message and in a tool's result; nothing for other blocks.
Result<std::optional<std::string>> TextOfBlock(const JsonObject& block, std::string_view type) {
  std::string text;
  if (type == "text") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view said, RequiredText(block, "text"));
    text = said;
  } else if (type == "document") {
    ROOST_ASSIGN_OR_RETURN(text, TextOfDocument(block));
  } else if (type == "search_result") {
    ROOST_RETURN_IF_ERROR(CheckCitations(block));
    ROOST_ASSIGN_OR_RETURN(text, TextMembers(block, {"title", "source"}));
    ROOST_ASSIGN_OR_RETURN(const std::string content, ContentOf(block));
    text += text.empty() ? content : "\n" + content;
  } else if (type == "tool_reference") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(block, "tool_name"));
    text = name;
  } else {
    return std::optional<std::string>();
  }
  return std::optional(std::move(text));
}

// A text, or an array of text blocks as one text, each after `cut`. Blocks that are empty then are left out.
Result<MarkedText> TextOfContent(JsonElement content, const std::string& path,
                                 std::string_view (*cut)(std::string_view)) {
  if (IsString(content)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(content, path));
    return MarkedText{std::string(cut(text)), {}};
  }
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> blocks, ElementsOf(content, path));
  MarkedText marked;
  std::optional<std::string> all;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject block, JsonObject::From(blocks[i], fmt::format("{}[{}]", path, i)));
    ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(block, "type"));
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::string> text, TextOfBlock(block, type));
    if (!text) {
      return InvalidArgument(block.PathOf("type"), "'{}' is not supported here: this server reads texts alone", type);
    }
    const std::string_view kept = cut(*text);
    if (kept.empty()) continue;
    AddLine(kept, all);
    ROOST_ASSIGN_OR_RETURN(std::string mark, CacheMarkOf(block));
    if (!mark.empty()) marked.marks.push_back({all->size(), std::move(mark)});
  }
  marked.text = std::move(all).value_or("");
  return marked;
}

// The parts of one of the client's messages, which may become several messages of a chat.
struct Turn {
  std::optional<std::string> text;
  std::vector<MarkedText::Mark> marks;  // in the text
  std::string mark;                     // behind all of it, of a call
  std::string reasoning;
  std::string tool_calls;                 // as JSON, each followed by a comma
  std::vector<std::string> tool_results;  // whole messages
};

// `member` is empty, or begins with a comma.
std::string WithMember(std::string object, std::string_view member) { return object.insert(object.size() - 1, member); }

Result<void> AddToolUse(const JsonObject& block, Turn& turn) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view id, RequiredText(block, "id"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(block, "name"));
  const std::optional<JsonElement> input = block.Find("input");
  JsonWriter json;
  json.BeginObject().Key("id").String(id).Key("type").String("function").Key("function").BeginObject();
  json.Key("name").String(name).Key("arguments");
  // Some clients send the text of a call that was cut off instead of an object.
  json.Raw(input ? json::JsonText(*input) : "{}");
  json.EndObject().EndObject();
  turn.tool_calls += json.Take() + ",";
  ROOST_ASSIGN_OR_RETURN(std::string mark, CacheMarkOf(block));
  if (!mark.empty()) turn.mark = std::move(mark);
  return {};
}

Result<void> AddToolResult(const JsonObject& block, Turn& turn) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view id, RequiredText(block, "tool_use_id"));
  ROOST_RETURN_IF_ERROR(block.Bool("is_error"));
  MarkedText text;
  if (const std::optional<JsonElement> content = block.Find("content")) {
    ROOST_ASSIGN_OR_RETURN(text, TextOfContent(*content, block.PathOf("content"), &AsItIs));
  }
  ROOST_ASSIGN_OR_RETURN(const std::string mark, CacheMarkOf(block));
  JsonWriter json;
  json.BeginObject().Key("role").String("tool").Key("tool_call_id").String(id).Key("content");
  WriteContent(text, json);
  turn.tool_results.push_back(WithMember(json.EndObject().Take(), mark));
  return {};
}

Result<void> AddBlock(const JsonObject& block, std::string_view role, Turn& turn) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(block, "type"));
  if (type == "text" || role == "user") {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::string> text, TextOfBlock(block, type));
    if (text) {
      AddLine(*text, turn.text);
      ROOST_ASSIGN_OR_RETURN(std::string mark, CacheMarkOf(block));
      if (!mark.empty()) turn.marks.push_back({turn.text->size(), std::move(mark)});
      return {};
    }
  }
  if (type == "tool_result" && role == "user") return AddToolResult(block, turn);
  if (type == "tool_use" && role == "assistant") return AddToolUse(block, turn);
  if (type == "thinking" && role == "assistant") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, RequiredText(block, "thinking"));
    turn.reasoning += text;
    return {};
  }
  if (type == "redacted_thinking" && role == "assistant") return {};
  return InvalidArgument(block.PathOf("type"), "'{}' is not supported in a message of the role {}", type, role);
}

Result<Turn> ReadTurn(const JsonObject& message, std::string_view role) {
  const std::string path = message.PathOf("content");
  const std::optional<JsonElement> content = message.Find("content");
  if (!content) return InvalidArgument(path, "is missing");
  Turn turn;
  if (IsString(*content)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*content, path));
    turn.text = text;
    return turn;
  }
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> blocks, ElementsOf(*content, path));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject block, JsonObject::From(blocks[i], fmt::format("{}[{}]", path, i)));
    ROOST_RETURN_IF_ERROR(AddBlock(block, role, turn));
  }
  return turn;
}

std::string WithoutComma(std::string list) {
  if (!list.empty()) list.pop_back();
  return list;
}

// The results of tools come before the user's text.
void WriteTurn(std::string_view role, const Turn& turn, std::string_view origin, ChatWriter& chat) {
  for (const std::string& result : turn.tool_results) chat.AddMessage(result, origin);
  if (!turn.text && turn.tool_calls.empty() && !turn.tool_results.empty()) return;
  JsonWriter json;
  json.BeginObject().Key("role").String(role).Key("content");
  const bool only_calls = !turn.text && !turn.tool_calls.empty();
  only_calls ? void(json.Null()) : WriteContent({turn.text.value_or(""), turn.marks}, json);
  if (!turn.reasoning.empty()) json.Key("reasoning_content").String(turn.reasoning);
  if (!turn.tool_calls.empty()) json.Key("tool_calls").Raw("[" + WithoutComma(turn.tool_calls) + "]");
  json.EndObject();
  chat.AddMessage(WithMember(json.Take(), turn.mark), origin);
}

// Without text it only carries settings of Anthropic's and says nothing.
Result<void> WriteSystem(const JsonObject& message, ChatWriter& chat) {
  const std::optional<JsonElement> content = message.Find("content");
  if (!content) return InvalidArgument(message.PathOf("content"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const MarkedText text,
                         TextOfContent(*content, message.PathOf("content"), &WithoutAccountLine));
  if (text.text.empty()) return {};
  JsonWriter json;
  json.BeginObject().Key("role").String("system").Key("content");
  WriteContent(text, json);
  chat.AddMessage(json.EndObject().Take(), message.path());
  return {};
}

bool HasWords(std::string_view text) { return text.find_first_not_of(" \t\r\n") != std::string_view::npos; }

Result<void> ReadTurns(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> messages, ElementsOf(element, path));
  if (messages.empty()) return InvalidArgument(path, "must hold at least one message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject message, JsonObject::From(messages[i], fmt::format("{}[{}]", path, i)));
    ROOST_ASSIGN_OR_RETURN(const std::string_view role, RequiredText(message, "role"));
    if (role != "user" && role != "assistant" && role != "system") {
      return InvalidArgument(message.PathOf("role"), "must be user, assistant or system");
    }
    if (role == "system") {
      ROOST_RETURN_IF_ERROR(WriteSystem(message, chat));
      chat.continues = false;
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(const Turn turn, ReadTurn(message, role));
    WriteTurn(role, turn, message.path(), chat);
    chat.continues = role == "assistant" && turn.tool_calls.empty() && HasWords(turn.text.value_or(""));
  }
  return {};
}

Result<void> ReadSystem(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const MarkedText text, TextOfContent(element, path, &WithoutAccountLine));
  if (text.text.empty()) return {};
  JsonWriter json;
  json.BeginObject().Key("role").String("system").Key("content");
  WriteContent(text, json);
  chat.system = json.EndObject().Take();
  return {};
}

// ---- tools ----

Result<void> WriteCustomTool(JsonElement element, std::string path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, tool.String("type"));
  if (type && *type != "custom") {
    return InvalidArgument(tool.PathOf("type"), "must be \"custom\": this server runs no tools of its own");
  }
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(tool, "name"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> description, tool.String("description"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> schema, tool.Object("input_schema"));
  if (!schema) return InvalidArgument(tool.PathOf("input_schema"), "is missing");
  JsonWriter json;
  json.BeginObject().Key("type").String("function").Key("function").BeginObject().Key("name").String(name);
  if (description) json.Key("description").String(*description);
  json.Key("parameters").Raw(json::JsonText(*tool.Find("input_schema")));
  CopyMembers(tool, {"strict"}, json);
  json.EndObject().EndObject();
  ROOST_ASSIGN_OR_RETURN(const std::string mark, CacheMarkOf(tool));
  chat.AddTool(WithMember(json.Take(), mark), tool.path());
  return {};
}

Result<void> ReadCustomTools(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> tools, ElementsOf(element, path));
  for (std::size_t i = 0; i < tools.size(); ++i) {
    ROOST_RETURN_IF_ERROR(WriteCustomTool(tools[i], fmt::format("{}[{}]", path, i), chat));
  }
  return {};
}

Result<void> ReadMessagesToolChoice(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject choice, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(choice, "type"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> serial, choice.Bool("disable_parallel_tool_use"));
  if (serial) chat.json.Key("parallel_tool_calls").Bool(!*serial);
  if (type != "auto" && type != "none" && type != "any" && type != "tool") {
    return InvalidArgument(choice.PathOf("type"), "must be auto, any, tool or none");
  }
  chat.json.Key("tool_choice");
  if (type == "tool") {
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(choice, "name"));
    chat.json.BeginObject().Key("type").String("function").Key("function").BeginObject().Key("name").String(name);
    chat.json.EndObject().EndObject();
  } else {
    chat.json.String(type == "any" ? "required" : type);
  }
  return {};
}

// ---- the table ----

Result<void> ReadThinking(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject thinking, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(thinking, "type"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return InvalidArgument(thinking.PathOf("type"), "must be enabled, adaptive or disabled");
  }
  chat.thinks = type != "disabled";
  return {};
}

Result<void> ReadStopSequences(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_RETURN_IF_ERROR(ElementsOf(element, path));
  chat.json.Key("stop").Raw(json::JsonText(element));
  return {};
}

// {"type": "json_schema", "schema": {…}}
Result<void> ReadOutputFormat(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject format, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(format, "type"));
  if (type != "json_schema") return InvalidArgument(format.PathOf("type"), "must be \"json_schema\"");
  const std::optional<JsonElement> schema = format.Find("schema");
  if (!schema) return InvalidArgument(format.PathOf("schema"), "is missing");
  chat.json.Key("response_format").BeginObject().Key("type").String(type);
  chat.json.Key("schema").Raw(json::JsonText(*schema)).EndObject();
  return {};
}

Result<void> ReadOutputConfig(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::From(element, path));
  if (const std::optional<JsonElement> format = config.Find("format")) {
    ROOST_RETURN_IF_ERROR(ReadOutputFormat(*format, config.PathOf("format"), chat));
  }
  return {};
}

constexpr std::string_view kTurnsSchema =
    R"({"type":"array","minItems":1,"items":{"type":"object","required":["role","content"],"properties":{)"
    R"("role":{"enum":["user","assistant","system"]},"content":{"oneOf":[{"type":"string"},{"type":"array",)"
    R"("items":{"type":"object","required":["type"],"properties":{)"
    R"("type":{"enum":["text","tool_use","tool_result","thinking","redacted_thinking","document","search_result",)"
    R"("tool_reference"]},"cache_control":{"type":["object","null"],"required":["type"],"properties":{)"
    R"("type":{"const":"ephemeral"},"ttl":{"enum":["5m","1h",null]}}}}}}]}}}})";
constexpr std::string_view kSystemSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type","text"],)"
    R"("properties":{"type":{"const":"text"},"text":{"type":"string"},"cache_control":{"type":["object","null"],)"
    R"("required":["type"],"properties":{"type":{"const":"ephemeral"},"ttl":{"enum":["5m","1h",null]}}}}}}]})";
constexpr std::string_view kCustomToolsSchema =
    R"({"type":"array","items":{"type":"object","required":["name","input_schema"],"properties":{)"
    R"("name":{"type":"string","minLength":1},"description":{"type":"string"},"input_schema":{"type":"object"},)"
    R"("cache_control":{"type":["object","null"],"required":["type"],"properties":{"type":{"const":"ephemeral"},)"
    R"("ttl":{"enum":["5m","1h",null]}}}}}})";
constexpr std::string_view kMessagesToolChoiceSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"enum":["auto","any","tool","none"]},)"
    R"("name":{"type":"string"},"disable_parallel_tool_use":{"type":"boolean"}}})";
constexpr std::string_view kThinkingSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"enum":["enabled","adaptive","disabled"]}}})";

constexpr std::string_view kOutputFormatSchema =
    R"({"type":"object","required":["type","schema"],"properties":{"type":{"const":"json_schema"},"schema":{"type":"object"}}})";
constexpr std::string_view kOutputConfigSchema =
    R"({"type":"object","properties":{"format":{"type":["object","null"],"required":["type","schema"],"properties":{)"
    R"("type":{"const":"json_schema"},"schema":{"type":"object"}}}}})";

constexpr auto kMessagesFields = std::to_array<RequestField<ChatWriter>>({
    {"model", "The model to ask.", Own<ChatWriter>{R"({"type":"string","minLength":1})", &CopyField}},
    {"max_tokens", "The maximum number of tokens in the answer.",
     Own<ChatWriter>{R"({"type":"integer","minimum":1,"maximum":2147483647})", &CopyField}},
    {"messages", "The conversation so far.", Own<ChatWriter>{kTurnsSchema, &ReadTurns}},
    {"system", "What goes before the conversation.", Own<ChatWriter>{kSystemSchema, &ReadSystem}},
    {"stream", "Send the answer as server-sent events.", Own<ChatWriter>{R"({"type":"boolean"})", &CopyField}},
    {"stop_sequences", "Texts that end the answer.",
     Own<ChatWriter>{R"({"type":"array","maxItems":16,"items":{"type":"string"}})", &ReadStopSequences}},
    {"temperature", "0 is greedy.", Own<ChatWriter>{R"({"type":"number","minimum":0,"maximum":2})", &CopyField}},
    {"top_p", "Sample from the likeliest tokens whose probabilities add up to this.",
     Own<ChatWriter>{R"({"type":"number","exclusiveMinimum":0,"maximum":1})", &CopyField}},
    {"top_k", "Sample from the k likeliest tokens.", Own<ChatWriter>{R"({"type":"integer","minimum":-1})", &CopyField}},
    {"seed", "The same seed gives the same answer.", Own<ChatWriter>{R"({"type":"integer"})", &CopyField}},
    {"tools", "Tools that the model may use.", Own<ChatWriter>{kCustomToolsSchema, &ReadCustomTools}},
    {"tool_choice", "Whether the model uses a tool, and which.",
     Own<ChatWriter>{kMessagesToolChoiceSchema, &ReadMessagesToolChoice}},
    {"output_config", "The form of the answer's text; effort is without effect.",
     Own<ChatWriter>{kOutputConfigSchema, &ReadOutputConfig}},
    {"output_format", "An older name of output_config.format.",
     Own<ChatWriter>{kOutputFormatSchema, &ReadOutputFormat}},
    {"response_format", "Not supported here: see output_config.", Refused{}},
    {"stop", "Not supported here: see stop_sequences.", Refused{}},
    {"max_completion_tokens", "Not supported here: see max_tokens.", Refused{}},
    {"thinking", "Whether a model that can reason does so.", Own<ChatWriter>{kThinkingSchema, &ReadThinking}},
    {"mcp_servers", "Not supported: this server runs no tools of its own.", Refused{Refused::Accepts::kEmpty}},
    {"container", "Not supported: this server runs no tools of its own.", Refused{}},
    {"metadata", "Without effect.", Ignored{}},
    {"service_tier", "Without effect.", Ignored{}},
});

Result<Translation> TranslateMessages(const JsonObject& body) {
  ChatWriter chat;
  if (!body.Find("messages")) return InvalidArgument("messages", "is missing");
  ROOST_RETURN_IF_ERROR(TranslateFields(body, MessagesFieldTable(), chat));
  // Templates of reasoning models reason unless told not to; in this API the client must ask for it.
  chat.json.Key("chat_template_kwargs").BeginObject();
  chat.json.Key("enable_thinking").Bool(chat.thinks).Key("thinking").Bool(chat.thinks).EndObject();
  // An assistant's message at the end is the beginning of the answer.
  if (chat.continues) chat.json.Key("continue_final_message").Bool(true);
  return FinishChat(chat, "system");
}

}  // namespace

std::span<const RequestField<ChatWriter>> MessagesFieldTable() { return kMessagesFields; }

Result<Translation> ChatOfMessages(const JsonObject& body) {
  if (!body.Find("max_tokens")) return InvalidArgument("max_tokens", "is missing");
  return TranslateMessages(body);
}

Result<Translation> ChatOfCountTokens(const JsonObject& body) { return TranslateMessages(body); }

std::string MessagesFieldOf(std::string_view chat_field) {
  if (chat_field == "stop" || chat_field.starts_with("stop["))
    return "stop_sequences" + std::string(chat_field.substr(4));
  if (chat_field == "continue_final_message") return "messages";
  if (chat_field.starts_with("response_format"))
    return "output_config.format" + std::string(chat_field.substr(std::string_view("response_format").size()));
  return std::string(chat_field);
}

}  // namespace roost::router

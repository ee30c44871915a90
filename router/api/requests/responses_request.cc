// OpenAI's Responses API → chat.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "router/api/requests/chat_translation.h"

namespace roost::router {
namespace {

// ---- tools ----

// The name that the model knows the tool of a call by.
Result<std::string> FunctionNameOf(const JsonObject& item) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(item, "name"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name_space, item.String("namespace"));
  return QualifiedName(name_space.value_or(""), name);
}

// A custom tool's format has the members of a chat's grammar directly, next to its type.
Result<void> WriteTextFormat(const JsonObject& tool, JsonWriter& json) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> format, tool.Object("format"));
  if (!format) return {};
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(*format, "type"));
  json.Key("format").BeginObject().Key("type").String(type);
  if (type == "grammar") {
    json.Key("grammar").BeginObject();
    CopyMembers(*format, {"syntax", "definition"}, json);
    json.EndObject();
  }
  json.EndObject();
  return {};
}

// Writes the tools that the client itself runs as tools of the chat. The first of two with one name counts: Codex may
// send one in `tools` and again within the input.
class ClientTools {
 public:
  explicit ClientTools(ChatWriter& chat) : chat_(chat) {}

  Result<void> Add(JsonElement element, const std::string& path) {
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> tools, ElementsOf(element, path));
    for (std::size_t i = 0; i < tools.size(); ++i) {
      ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(tools[i], fmt::format("{}[{}]", path, i)));
      ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(tool, "type"));
      ROOST_RETURN_IF_ERROR(type == "namespace" ? AddNamespace(tool) : AddTool(tool, type, ""));
    }
    return {};
  }

 private:
  Result<void> AddNamespace(const JsonObject& tool) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(tool, "name"));
    ROOST_ASSIGN_OR_RETURN(const auto tools, tool.Array("tools"));
    if (!tools) return InvalidArgument(tool.PathOf("tools"), "is missing");
    for (std::size_t i = 0; i < tools->size(); ++i) {
      ROOST_ASSIGN_OR_RETURN(const JsonObject inner,
                             JsonObject::From((*tools)[i], fmt::format("{}[{}]", tool.PathOf("tools"), i)));
      ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(inner, "type"));
      ROOST_RETURN_IF_ERROR(AddTool(inner, type, name));
    }
    return {};
  }

  Result<void> AddTool(const JsonObject& tool, std::string_view type, std::string_view name_space) {
    if (type != "function" && type != "custom") {
      return InvalidArgument(tool.PathOf("type"),
                             "must be function, custom or namespace, not '{}': this server runs no "
                             "tools of its own",
                             type);
    }
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, RequiredText(tool, "name"));
    const bool is_custom = type == "custom";
    const std::string full_name = QualifiedName(name_space, name);
    if (!chat_.tool_names_seen.insert(full_name).second) return {};
    JsonWriter json;
    json.BeginObject().Key("type").String(type).Key(type).BeginObject().Key("name").String(full_name);
    CopyMembers(tool, {"description"}, json);
    if (is_custom) {
      ROOST_RETURN_IF_ERROR(WriteTextFormat(tool, json));
    } else {
      CopyMembers(tool, {"parameters", "strict"}, json);
    }
    json.EndObject().EndObject();
    chat_.AddTool(json.Take(), tool.path());
    if (!is_custom && name_space.empty()) return {};
    const auto kind = is_custom ? ClientTool::Kind::kCustom : ClientTool::Kind::kFunction;
    chat_.result.tool_names[full_name] = {kind, std::string(name), std::string(name_space)};
    return {};
  }

  ChatWriter& chat_;
};

Result<void> ReadClientTools(JsonElement element, const std::string& path, ChatWriter& chat) {
  return ClientTools(chat).Add(element, path);
}

// A tool of a choice, as a chat names it.
Result<void> WriteToolChoice(const JsonObject& named, JsonWriter& json) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(named, "type"));
  if (type != "function" && type != "custom") {
    return InvalidArgument(named.PathOf("type"), "must be function or custom");
  }
  ROOST_ASSIGN_OR_RETURN(const std::string name, FunctionNameOf(named));
  json.BeginObject().Key("type").String(type).Key(type).BeginObject().Key("name").String(name);
  json.EndObject().EndObject();
  return {};
}

Result<void> ReadClientToolChoice(JsonElement element, const std::string& path, ChatWriter& chat) {
  if (IsString(element)) return CopyField(element, path, chat);
  ROOST_ASSIGN_OR_RETURN(const JsonObject choice, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(choice, "type"));
  chat.json.Key("tool_choice");
  if (type != "allowed_tools") return WriteToolChoice(choice, chat.json);
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::vector<JsonElement>> tools, choice.Array("tools"));
  if (!tools) return InvalidArgument(choice.PathOf("tools"), "is missing");
  chat.json.BeginObject().Key("type").String(type).Key(type).BeginObject();
  CopyMembers(choice, {"mode"}, chat.json);
  chat.json.Key("tools").BeginArray();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const std::string tool_path = fmt::format("{}[{}]", choice.PathOf("tools"), i);
    ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From((*tools)[i], tool_path));
    ROOST_RETURN_IF_ERROR(WriteToolChoice(tool, chat.json));
  }
  chat.json.EndArray().EndObject().EndObject();
  return {};
}

// ---- items of the input ----

// A text, or an array of parts with text as one text. Parts become lines, as in vLLM.
Result<MarkedText> TextOfParts(JsonElement content, const std::string& path) {
  if (IsString(content)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(content, path));
    return MarkedText{std::string(text), {}};
  }
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> parts, ElementsOf(content, path));
  MarkedText all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject part, JsonObject::From(parts[i], fmt::format("{}[{}]", path, i)));
    ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(part, "type"));
    const bool is_text = type == "input_text" || type == "output_text" || type == "text" || type == "reasoning_text" ||
                         type == "summary_text";
    if (!is_text && type != "refusal") {
      return InvalidArgument(part.PathOf("type"), "'{}' is not supported: this server accepts only text", type);
    }
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, RequiredText(part, is_text ? "text" : "refusal"));
    if (i > 0) all.text += '\n';
    all.text += text;
    ROOST_RETURN_IF_ERROR(all.MarkEnd(part));
  }
  return all;
}

Result<MarkedText> TextOfMember(const JsonObject& item, std::string_view name) {
  const std::optional<JsonElement> element = item.Find(name);
  if (!element) return InvalidArgument(item.PathOf(name), "is missing");
  return TextOfParts(*element, item.PathOf(name));
}

// Makes chat messages from input items. Consecutive items of the assistant (reasoning, text, calls) become one message.
class InputItems {
 public:
  explicit InputItems(ChatWriter& chat) : chat_(chat) {}

  Result<void> Add(const JsonObject& item) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> said, item.String("type"));
    const std::string_view type = said.value_or("message");
    if (type == "message") return AddMessage(item);
    if (type == "function_call" || type == "custom_tool_call") return AddCall(item, type);
    if (type == "function_call_output" || type == "custom_tool_call_output") return AddOutput(item);
    if (type == "reasoning") return AddReasoning(item);
    if (type == "additional_tools") return AddTools(item);
    if (type == "item_reference") {
      return InvalidArgument(item.PathOf("type"),
                             "'item_reference' is not supported: this server stores nothing, send the item itself");
    }
    return InvalidArgument(item.PathOf("type"), "'{}' is not supported", type);
  }

  void AddText(std::string_view role, const MarkedText& text, std::string_view origin) {
    FlushAssistant();
    JsonWriter json;
    json.BeginObject().Key("role").String(role).Key("content");
    WriteContent(text, json);
    chat_.AddMessage(json.EndObject().Take(), origin);
  }

  // Reasoning that no message of the assistant follows belongs to none.
  void FlushAssistant() {
    const std::uint32_t reasoning_count = std::exchange(reasoning_count_, 0);
    const std::string reasoning = std::exchange(reasoning_, {});
    if (!text_ && calls_.empty()) {
      chat_.result.dropped_reasoning_count += reasoning_count;
      return;
    }
    JsonWriter json;
    json.BeginObject().Key("role").String("assistant").Key("content");
    text_ ? WriteContent(*text_, json) : void(json.Null());
    if (!reasoning.empty()) json.Key("reasoning_content").String(reasoning);
    if (!calls_.empty()) json.Key("tool_calls").Raw("[" + calls_ + "]");
    json.EndObject();
    chat_.AddMessage(json.Take(), origin_);
    text_.reset();
    calls_.clear();
  }

 private:
  Result<void> AddMessage(const JsonObject& item) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view role, RequiredText(item, "role"));
    const bool is_empty = role == "assistant" && !item.Find("content");
    ROOST_ASSIGN_OR_RETURN(const MarkedText text, is_empty ? MarkedText() : TextOfMember(item, "content"));
    if (role == "assistant") {
      if (text_ || !calls_.empty()) FlushAssistant();
      origin_ = item.path();
      text_ = text;
      return {};
    }
    if (role != "user" && role != "system" && role != "developer") {
      return InvalidArgument(item.PathOf("role"), "must be user, assistant, system or developer");
    }
    AddText(role, text, item.path());
    return {};
  }

  Result<void> AddCall(const JsonObject& item, std::string_view type) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view id, RequiredText(item, "call_id"));
    ROOST_ASSIGN_OR_RETURN(const std::string name, FunctionNameOf(item));
    JsonWriter json;
    json.BeginObject().Key("id").String(id).Key("type").String("function").Key("function").BeginObject();
    json.Key("name").String(name).Key("arguments");
    if (type == "custom_tool_call") {
      ROOST_ASSIGN_OR_RETURN(const std::string_view input, RequiredText(item, "input"));
      json.BeginObject().Key(kCustomToolInput).String(input).EndObject();
    } else {
      const std::optional<JsonElement> arguments = item.Find("arguments");
      const bool is_object = arguments && arguments->is_object();  // of clients that read the text
      if (!is_object) ROOST_RETURN_IF_ERROR(RequiredText(item, "arguments"));
      json.Raw(json::JsonText(*arguments));
    }
    json.EndObject().EndObject();
    if (!text_ && calls_.empty()) origin_ = item.path();
    if (!calls_.empty()) calls_ += ',';
    calls_ += json.Take();
    return {};
  }

  Result<void> AddOutput(const JsonObject& item) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view id, RequiredText(item, "call_id"));
    // A tool may say nothing.
    const bool is_empty = !item.Find("output");
    ROOST_ASSIGN_OR_RETURN(const MarkedText text, is_empty ? MarkedText() : TextOfMember(item, "output"));
    FlushAssistant();
    JsonWriter json;
    json.BeginObject().Key("role").String("tool").Key("tool_call_id").String(id);
    json.Key("content");
    WriteContent(text, json);
    chat_.AddMessage(json.EndObject().Take(), item.path());
    return {};
  }

  // Codex sends its tools within the input.
  Result<void> AddTools(const JsonObject& item) {
    const std::optional<JsonElement> tools = item.Find("tools");
    if (!tools) return InvalidArgument(item.PathOf("tools"), "is missing");
    return ReadClientTools(*tools, item.PathOf("tools"), chat_);
  }

  // Encrypted reasoning comes from another server and is left out.
  Result<void> AddReasoning(const JsonObject& item) {
    if (text_ || !calls_.empty()) FlushAssistant();
    for (const std::string_view name : {"content", "summary"}) {
      if (!item.Find(name)) continue;
      ROOST_ASSIGN_OR_RETURN(const MarkedText text, TextOfMember(item, name));
      if (text.text.empty()) continue;
      if (!reasoning_.empty()) reasoning_ += '\n';
      reasoning_ += text.text;
      ++reasoning_count_;
      return {};
    }
    return {};
  }

  ChatWriter& chat_;
  // The assistant's message that is not written yet.
  std::optional<MarkedText> text_;
  std::string reasoning_;
  std::uint32_t reasoning_count_ = 0;  // items in reasoning_
  std::string calls_;
  std::string origin_;  // of its first item that is no reasoning
};

Result<void> ReadInput(JsonElement element, const std::string& path, ChatWriter& chat) {
  InputItems messages(chat);
  if (IsString(element)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
    messages.AddText("user", {std::string(text), {}}, path);
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> items, ElementsOf(element, path));
  if (items.empty()) return InvalidArgument(path, "must hold at least one item");
  for (std::size_t i = 0; i < items.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject item, JsonObject::From(items[i], fmt::format("{}[{}]", path, i)));
    ROOST_RETURN_IF_ERROR(messages.Add(item));
  }
  messages.FlushAssistant();
  return {};
}

Result<void> ReadInstructions(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  if (text.empty()) return {};
  JsonWriter json;
  json.BeginObject().Key("role").String("system").Key("content").String(text).EndObject();
  chat.system = json.Take();
  return {};
}

// ---- formats ----

// text.format has the members of a chat's json_schema directly, next to its type.
Result<void> ReadTextFormat(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject text, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> format, text.Object("format"));
  if (!format) return {};
  ROOST_ASSIGN_OR_RETURN(const std::string_view type, RequiredText(*format, "type"));
  chat.json.Key("response_format").BeginObject().Key("type").String(type);
  if (type == "json_object") CopyMembers(*format, {"schema"}, chat.json);
  if (type == "json_schema") {
    chat.json.Key("json_schema").BeginObject();
    CopyMembers(*format, {"name", "description", "schema", "strict"}, chat.json);
    chat.json.EndObject();
  }
  chat.json.EndObject();
  return {};
}

Result<void> ReadReasoning(JsonElement element, const std::string& path, ChatWriter& chat) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject reasoning, JsonObject::From(element, path));
  if (const auto effort = reasoning.Find("effort")) chat.json.Key("reasoning_effort").Raw(json::JsonText(*effort));
  return {};
}

Result<void> ReadMaxOutput(JsonElement element, const std::string&, ChatWriter& chat) {
  chat.json.Key("max_completion_tokens").Raw(json::JsonText(element));
  return {};
}

// ---- the table ----

// For fields that need state kept between requests.
Result<void> RefuseState(JsonElement, const std::string& path, ChatWriter&) {
  return InvalidArgument(path, "is not supported: this server stores nothing, send the whole input");
}

Result<void> CheckTruncation(JsonElement element, const std::string& path, ChatWriter&) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view truncation, StringOf(element, path));
  if (truncation == "disabled") return {};
  return InvalidArgument(path, "must be \"disabled\": this server leaves nothing out of a prompt");
}

// Most of it asks for what this server has no part of. Who asks for log probabilities would miss them.
Result<void> CheckInclude(JsonElement element, const std::string& path, ChatWriter&) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> parts, ElementsOf(element, path));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part_path = fmt::format("{}[{}]", path, i);
    ROOST_ASSIGN_OR_RETURN(const std::string_view part, StringOf(parts[i], part_path));
    if (part != "message.output_text.logprobs") continue;
    return InvalidArgument(part_path, "is not supported: /v1/chat/completions has log probabilities");
  }
  return {};
}

// Fields of the other APIs.
Result<void> RefuseLength(JsonElement, const std::string& path, ChatWriter&) {
  return InvalidArgument("max_output_tokens", "is the limit here, '{}' is not", path);
}

Result<void> CheckTopLogprobs(JsonElement element, const std::string& path, ChatWriter&) {
  ROOST_ASSIGN_OR_RETURN(const std::int64_t count, IntegerOf(element, path, 0, wire::kMaxTopLogprobs));
  if (count == 0) return {};
  return InvalidArgument(path, "must be 0: /v1/chat/completions has log probabilities");
}

Result<void> CheckStore(JsonElement element, const std::string& path, ChatWriter&) {
  ROOST_RETURN_IF_ERROR(BoolOf(element, path));
  return {};
}

constexpr std::string_view kInputSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"object","properties":{)"
    R"("type":{"enum":["message","function_call","function_call_output","custom_tool_call","custom_tool_call_output",)"
    R"("reasoning","additional_tools"]}}}}]})";
constexpr std::string_view kClientToolsSchema =
    R"({"type":"array","items":{"type":"object","required":["type","name"],"properties":{)"
    R"("type":{"enum":["function","custom","namespace"]},"name":{"type":"string","minLength":1},)"
    R"("parameters":{"type":["object","null"]},"format":{"type":"object"},"tools":{"type":"array"}}}})";
constexpr std::string_view kClientToolChoiceSchema =
    R"({"oneOf":[{"enum":["auto","none","required"]},{"type":"object","required":["type"],"properties":{)"
    R"("type":{"enum":["function","custom","allowed_tools"]},"name":{"type":"string"},)"
    R"("mode":{"enum":["auto","required"]},"tools":{"type":"array","minItems":1,"items":{"type":"object"}}}}]})";
constexpr std::string_view kTextFormatSchema =
    R"({"type":"object","properties":{"format":{"type":"object","required":["type"],"properties":{)"
    R"("type":{"enum":["text","json_object","json_schema"]}}}}})";
constexpr std::string_view kReasoningSchema = R"({"type":"object","properties":{"effort":{"type":["string","null"]}}})";

constexpr auto kResponsesFields = std::to_array<RequestField<ChatWriter>>({
    {"model", "The model to ask.", Own<ChatWriter>{R"({"type":"string","minLength":1})", &CopyField}},
    // Before the input, which may hold more of them.
    {"tools", "The client's functions, custom tools and namespaces that the model may call.",
     Own<ChatWriter>{kClientToolsSchema, &ReadClientTools}},
    {"input", "A text, or the items of the conversation so far.", Own<ChatWriter>{kInputSchema, &ReadInput}},
    {"instructions", "What goes before the conversation.", Own<ChatWriter>{R"({"type":"string"})", &ReadInstructions}},
    {"stream", "Send the answer as typed server-sent events.", Own<ChatWriter>{R"({"type":"boolean"})", &CopyField}},
    {"max_output_tokens", "The maximum number of tokens in the answer.",
     Own<ChatWriter>{R"({"type":"integer","minimum":1,"maximum":2147483647})", &ReadMaxOutput}},
    {"temperature", "0 is greedy.", Own<ChatWriter>{R"({"type":"number","minimum":0,"maximum":2})", &CopyField}},
    {"top_p", "Sample from the likeliest tokens whose probabilities add up to this.",
     Own<ChatWriter>{R"({"type":"number","exclusiveMinimum":0,"maximum":1})", &CopyField}},
    {"top_k", "Sample from the k likeliest tokens.", Own<ChatWriter>{R"({"type":"integer","minimum":-1})", &CopyField}},
    {"seed", "The same seed gives the same answer.", Own<ChatWriter>{R"({"type":"integer"})", &CopyField}},
    {"chat_template_kwargs", "Variables for the chat template.", Own<ChatWriter>{R"({"type":"object"})", &CopyField}},
    {"tool_choice", "Whether the model calls a function, and which.",
     Own<ChatWriter>{kClientToolChoiceSchema, &ReadClientToolChoice}},
    {"parallel_tool_calls", "Whether an answer may hold several calls.",
     Own<ChatWriter>{R"({"type":"boolean"})", &CopyField}},
    {"response_format", "Not supported here: see text.", Refused{}},
    {"stop", "Texts that end the answer.",
     Own<ChatWriter>{R"({"oneOf":[{"type":"string"},{"type":"array","maxItems":16,"items":{"type":"string"}}]})",
                     &CopyField}},
    {"max_tokens", "Not supported here: see max_output_tokens.", Own<ChatWriter>{R"({"type":"null"})", &RefuseLength}},
    {"max_completion_tokens", "Not supported here: see max_output_tokens.",
     Own<ChatWriter>{R"({"type":"null"})", &RefuseLength}},
    {"text", "The form of the answer's text.", Own<ChatWriter>{kTextFormatSchema, &ReadTextFormat}},
    {"reasoning", "How much the model reasons, for templates that use it.",
     Own<ChatWriter>{kReasoningSchema, &ReadReasoning}},
    {"store", "Without effect: nothing is stored.", Own<ChatWriter>{R"({"type":"boolean"})", &CheckStore}},
    {"truncation", "Must be disabled.", Own<ChatWriter>{R"({"const":"disabled"})", &CheckTruncation}},
    {"background", "Not supported.", Refused{Refused::Accepts::kFalse}},
    {"previous_response_id", "Not supported: nothing is stored.", Own<ChatWriter>{R"({"type":"null"})", &RefuseState}},
    {"conversation", "Not supported: nothing is stored.", Own<ChatWriter>{R"({"type":"null"})", &RefuseState}},
    {"prompt", "Not supported: nothing is stored.", Own<ChatWriter>{R"({"type":"null"})", &RefuseState}},
    {"include", "Without effect; log probabilities are not supported here.",
     Own<ChatWriter>{R"({"type":"array","items":{"type":"string"}})", &CheckInclude}},
    {"top_logprobs", "Must be 0.", Own<ChatWriter>{R"({"const":0})", &CheckTopLogprobs}},
    {"metadata", "Repeated in the answer.", Ignored{}},
    {"user", "Repeated in the answer.", Ignored{}},
    {"service_tier", "Without effect.", Ignored{}},
    {"safety_identifier", "Without effect.", Ignored{}},
    {"stream_options", "Without effect.", Ignored{}},
});

void CopyText(const JsonObject& body, std::string_view name, std::string& to) {
  if (const std::optional<JsonElement> element = body.Find(name)) to = json::JsonText(*element);
}

}  // namespace

std::span<const RequestField<ChatWriter>> ResponsesFieldTable() { return kResponsesFields; }

Result<Translation> ChatOfResponses(const JsonObject& body) {
  if (!body.Find("input")) return InvalidArgument("input", "is missing");
  ChatWriter chat;
  ROOST_RETURN_IF_ERROR(TranslateFields(body, ResponsesFieldTable(), chat));
  return FinishChat(chat, "instructions");
}

std::string ResponsesFieldOf(std::string_view chat_field) {
  if (chat_field == "max_completion_tokens") return "max_output_tokens";
  if (chat_field.starts_with("messages")) return "input";
  if (chat_field == "reasoning_effort") return "reasoning.effort";
  if (chat_field.starts_with("response_format")) return "text.format";
  std::string field(chat_field);
  if (!field.starts_with("tool_choice.")) return field;
  for (const std::string_view inner : {".allowed_tools", ".function", ".custom"}) {
    if (const std::size_t at = field.find(inner); at != std::string::npos) field.erase(at, inner.size());
  }
  return field;
}

ResponseEcho EchoOfResponses(const JsonObject& body) {
  ResponseEcho echo;
  CopyText(body, "instructions", echo.instructions);
  CopyText(body, "max_output_tokens", echo.max_output_tokens);
  CopyText(body, "metadata", echo.metadata);
  CopyText(body, "parallel_tool_calls", echo.parallel_tool_calls);
  CopyText(body, "reasoning", echo.reasoning);
  CopyText(body, "temperature", echo.temperature);
  CopyText(body, "text", echo.text);
  CopyText(body, "tool_choice", echo.tool_choice);
  CopyText(body, "tools", echo.tools);
  CopyText(body, "top_p", echo.top_p);
  CopyText(body, "user", echo.user);
  return echo;
}

std::size_t SizeOf(const ResponseEcho& echo) {
  std::size_t size = 0;
  for (const std::string* part :
       {&echo.instructions, &echo.max_output_tokens, &echo.metadata, &echo.parallel_tool_calls, &echo.reasoning,
        &echo.temperature, &echo.text, &echo.tool_choice, &echo.tools, &echo.top_p, &echo.user}) {
    size += part->size();
  }
  return size;
}

}  // namespace roost::router

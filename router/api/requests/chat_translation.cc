#include "router/api/requests/chat_translation.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>
#include <variant>
#include <vector>

#include "router/api/requests/cache_fields.h"
#include "router/api/requests/sampling_fields.h"

namespace roost::router {
namespace {

// "messages[2].content" is "input[3]" to the client, and "tools[1].function.name" "tools[0].tools[1].name".
std::string OriginOf(const Translation& translation, std::string_view field) {
  const auto origin = [field](std::string_view list, const std::vector<std::string>& origins) -> const std::string* {
    if (!field.starts_with(list)) return nullptr;
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(field.data() + list.size(), field.data() + field.size(), index);
    return error == std::errc() && index < origins.size() ? &origins[index] : nullptr;
  };
  if (const std::string* message = origin("messages[", translation.message_origins)) return *message;
  const std::string* tool = origin("tools[", translation.tool_origins);
  if (tool == nullptr) return std::string(field);
  // Members of the function or custom tool are the client's tool's own, and so are those of a custom tool's grammar.
  for (const std::string_view kind : {"].function", "].custom"}) {
    const std::size_t inner = field.find(kind);
    if (inner == std::string_view::npos) continue;
    std::string member(field.substr(inner + kind.size()));
    constexpr std::string_view kGrammar = ".format.grammar";
    if (member.starts_with(kGrammar)) member.replace(0, kGrammar.size(), ".format");
    return *tool + member;
  }
  return *tool;
}

Result<ChatRequest> ReadTranslation(Result<Translation>& translation) {
  if (!translation.ok()) return translation.error();
  JsonBody json(std::move(translation->chat));
  ROOST_ASSIGN_OR_RETURN(const JsonObject body, json.Parse());
  Result<ChatRequest> chat = ParseChatRequest(body);
  if (!chat.ok()) {
    Error error = std::move(chat).error();
    error.field = OriginOf(*translation, error.field);
    return error;
  }
  chat->sampling.unknown_field_count = translation->unknown_field_count;
  chat->dropped_reasoning_count = translation->dropped_reasoning_count;
  return chat;
}

// A row for a field that has the same name in a chat.
constexpr RequestField<ChatWriter> SameField(std::string_view name) {
  return {name, "As in chat completions.", Own<ChatWriter>{"{}", &CopyField}};
}

Result<void> CheckOneChoice(JsonElement element, const std::string& path, ChatWriter&) {
  ROOST_RETURN_IF_ERROR(IntegerOf(element, path, 1, 1));
  return {};
}

constexpr auto kSharedFields = std::to_array<RequestField<ChatWriter>>({
    SameField("format"),
    SameField("structured_outputs"),
    SameField("guided_json"),
    SameField("guided_regex"),
    SameField("guided_choice"),
    SameField("guided_grammar"),
    SameField("json_schema"),
    SameField("regex"),
    SameField("ebnf"),
    SameField("grammar"),
    {"guided_whitespace_pattern", "Not supported.", Refused{}},
    {"structural_tag", "Not supported.", Refused{}},
    SameField("nvext"),
    SameField("guided_decoding"),
    SameField("guided_options"),
    SameField("logit_bias"),
    SameField("min_tokens"),
    SameField("ignore_eos"),
    SameField("stop_token_ids"),
    SameField("include_stop_str_in_output"),
    SameField("bad_words"),
    SameField("allowed_token_ids"),
    SameField("logits_processors"),
    SameField("truncate_prompt_tokens"),
    {"n", "Must be 1.", Own<ChatWriter>{R"({"const":1})", &CheckOneChoice}},
    {"extra_body", "Must be empty, as in chat completions.",
     Own<ChatWriter>{R"({"type":"object","maxProperties":0})", &CopyField}},
});

// The numbers of a chat by which tokens are drawn, but for those that every API describes itself.
bool IsSharedNumber(const RequestField<SamplingFields>& field) {
  return std::holds_alternative<Real<SamplingFields>>(field.rule) && field.name != "temperature" &&
         field.name != "top_p";
}

std::vector<RequestField<ChatWriter>> AllSharedFields() {
  std::vector<RequestField<ChatWriter>> all(kSharedFields.begin(), kSharedFields.end());
  for (const RequestField<SamplingFields>& field : SamplingFieldTable()) {
    if (IsSharedNumber(field)) all.push_back(SameField(field.name));
  }
  return all;
}

Result<ChatRequest> ReadTranslation(Result<Translation>&& translation) { return ReadTranslation(translation); }

}  // namespace

Result<ChatRequest> ParseMessagesRequest(const JsonObject& body) { return ReadTranslation(ChatOfMessages(body)); }

Result<ChatRequest> ParseCountTokensRequest(const JsonObject& body) { return ReadTranslation(ChatOfCountTokens(body)); }

Result<ResponsesRequest> ParseResponsesRequest(const JsonObject& body) {
  ResponsesRequest request;
  Result<Translation> translation = ChatOfResponses(body);
  ROOST_ASSIGN_OR_RETURN(request.chat, ReadTranslation(translation));
  request.echo = EchoOfResponses(body);
  request.tool_names = std::move(translation->tool_names);
  return request;
}

// ---- for the translations ----

Result<std::string> CacheMarkOf(const JsonObject& part) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<CacheBreakpoint> mark, BreakpointOf(part));
  if (!mark) return std::string();
  const bool is_anthropic = mark->form == CacheBreakpoint::Form::kAnthropic;
  const std::string_view name = is_anthropic ? "cache_control" : "prompt_cache_breakpoint";
  return fmt::format(R"(,"{}":{})", name, json::JsonText(*part.Find(name)));
}

Result<void> MarkedText::MarkEnd(const JsonObject& part) {
  ROOST_ASSIGN_OR_RETURN(std::string member, CacheMarkOf(part));
  if (!member.empty()) marks.push_back({text.size(), std::move(member)});
  return {};
}

void WriteContent(const MarkedText& content, JsonWriter& json) {
  if (content.marks.empty()) {
    json.String(content.text);
    return;
  }
  std::string parts;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, std::string_view member) {
    if (!parts.empty()) parts += ',';
    parts += R"({"type":"text","text":)";
    AppendJsonString(std::string_view(content.text).substr(begin, end - begin), parts);
    parts.append(member) += '}';
    begin = end + 1;
  };
  for (const MarkedText::Mark& mark : content.marks) {
    if (mark.bytes + 1 > begin) add(mark.bytes, mark.member);
  }
  if (begin <= content.text.size()) add(content.text.size(), "");
  json.Raw("[" + parts + "]");
}

void ChatWriter::AddMessage(std::string_view message, std::string_view origin) {
  if (!messages.empty()) messages += ',';
  messages += message;
  result.message_origins.emplace_back(origin);
}

void ChatWriter::AddTool(std::string_view tool, std::string_view origin) {
  if (!tools.empty()) tools += ',';
  tools += tool;
  result.tool_origins.emplace_back(origin);
}

std::span<const RequestField<ChatWriter>> SharedFieldTable() {
  static const std::vector<RequestField<ChatWriter>> kAll = AllSharedFields();
  return kAll;
}

Result<void> CopyField(JsonElement element, const std::string& path, ChatWriter& chat) {
  chat.json.Key(path).Raw(json::JsonText(element));
  return {};
}

Result<void> TranslateFields(const JsonObject& body, std::span<const RequestField<ChatWriter>> fields,
                             ChatWriter& chat) {
  chat.json.BeginObject();
  ROOST_RETURN_IF_ERROR(ReadFields(body, fields, chat));
  ROOST_RETURN_IF_ERROR(ReadFields(body, SharedFieldTable(), chat));
  for (const RequestField<CacheFields>& field : CacheFieldTable()) CopyMembers(body, {field.name}, chat.json);
  chat.result.unknown_field_count = CountUnknown(body, fields, SharedFieldTable(), CacheFieldTable());
  return {};
}

Translation FinishChat(ChatWriter& chat, std::string_view system_field) {
  const bool has_both = !chat.system.empty() && !chat.messages.empty();
  if (!chat.tools.empty()) chat.json.Key("tools").Raw("[" + chat.tools + "]");
  chat.json.Key("messages").Raw("[" + chat.system + (has_both ? "," : "") + chat.messages + "]").EndObject();
  Translation result = std::move(chat.result);
  result.chat = chat.json.Take();
  if (!chat.system.empty()) result.message_origins.emplace(result.message_origins.begin(), system_field);
  return result;
}

void CopyMembers(const JsonObject& object, std::initializer_list<std::string_view> names, JsonWriter& json) {
  for (const std::string_view name : names) {
    if (const std::optional<JsonElement> element = object.Find(name)) json.Key(name).Raw(json::JsonText(*element));
  }
}

Result<std::string_view> RequiredText(const JsonObject& object, std::string_view name) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, object.String(name));
  if (!text) return InvalidArgument(object.PathOf(name), "is missing");
  return *text;
}

}  // namespace roost::router

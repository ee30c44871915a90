#include "router/api/requests/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/json.h"
#include "router/api/requests/structured_output.h"
#include "router/api/requests/tool_request.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {
namespace {

constexpr std::array<std::string_view, 6> kRoles{"system", "developer", "user", "assistant", "tool", "function"};
// The id of a call in the form that OpenAI's API had before tools: it has one call a message, and its result follows.
constexpr std::string_view kLegacyCallId = "function_call";

// ---- content ----

struct MessageContent {
  std::optional<std::string> text;       // nothing when absent or null
  std::string reasoning;                 // of an assistant's message
  std::vector<ChatRequest::Mark> marks;  // their message is not set yet
};

void AddTextLine(std::string_view line, std::optional<std::string>& text) {
  text ? text->append("\n").append(line) : text.emplace(line);
}

// A part with text; also a text alone, and the names of parts in other APIs, which adapters leave behind.
Result<void> AddPart(JsonElement element, const std::string& path, std::string_view role, MessageContent& content) {
  if (IsString(element)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
    AddTextLine(text, content.text);
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const JsonObject part, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, part.String("type"));
  const bool is_thinking = type == "thinking" && role == "assistant";
  if (type == "redacted_thinking" && role == "assistant") return {};
  if (!is_thinking && type != "text" && type != "refusal" && type != "input_text" && type != "output_text") {
    return InvalidArgument(part.PathOf("type"), "must be \"text\": this server accepts no other kind of content");
  }
  const std::string_view name = is_thinking || type == "refusal" ? *type : "text";
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, part.String(name));
  if (!text) return InvalidArgument(part.PathOf(name), "is missing");
  is_thinking ? void(content.reasoning += *text) : AddTextLine(*text, content.text);
  ROOST_ASSIGN_OR_RETURN(const std::optional<CacheBreakpoint> mark, BreakpointOf(part));
  if (mark) content.marks.push_back({*mark, std::nullopt, content.text.value_or("").size()});
  return {};
}

// A string, or an array of parts with text, which become lines as in vLLM; nothing when absent or null.
Result<MessageContent> ParseContent(const JsonObject& message, std::string_view role) {
  const std::optional<JsonElement> content = message.Find("content");
  if (!content) return MessageContent();
  const std::string path = message.PathOf("content");
  if (IsString(*content)) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*content, path));
    return MessageContent{std::string(text), {}, {}};
  }
  if (!content->is_array()) {
    return InvalidArgument(path, "must be a string or an array of text parts, not {}", TypeName(*content));
  }
  MessageContent all;
  std::size_t i = 0;
  for (const JsonElement part : simdjson::dom::array(*content)) {
    ROOST_RETURN_IF_ERROR(AddPart(part, fmt::format("{}[{}]", path, i++), role, all));
  }
  if (!all.text) all.text.emplace();
  return all;
}

// ---- tool calls of earlier assistant messages ----

// An object, or the text of one. Anything else that a model wrote (a call that max_tokens cut off, a list) stays the
// text that it is: refusing it would end the conversation, because the client sends it again in every later turn.
Result<jinja::Value> ParseArguments(const JsonObject& function) {
  const std::string path = function.PathOf("arguments");
  const std::optional<JsonElement> element = function.Find("arguments");
  if (!element) return jinja::Value::Mapping({});
  if (element->is_object()) return TemplateValueOf(*element, path);
  if (!IsString(*element)) return jinja::Value::String(json::JsonText(*element));
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*element, path));
  if (text.empty()) return jinja::Value::Mapping({});
  Result<jinja::Value> value = jinja::FromJson(text, path);
  return value.ok() && value->is(jinja::Kind::kDict) ? std::move(value).value()
                                                     : jinja::Value::String(std::string(text));
}

Result<jinja::Value> ParseFunction(const JsonObject& function) {
  jinja::Dict result;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, function.String("name"));
  if (!name) return InvalidArgument(function.PathOf("name"), "is missing");
  result.Set("name", jinja::Value::String(std::string(*name)));
  ROOST_ASSIGN_OR_RETURN(jinja::Value arguments, ParseArguments(function));
  result.Set("arguments", std::move(arguments));
  return jinja::Value::Mapping(std::move(result));
}

// A custom tool's call as that of the function which the model sees.
Result<jinja::Value> ParseCustomCall(const JsonObject& call) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> custom, call.Object("custom"));
  if (!custom) return InvalidArgument(call.PathOf("custom"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, custom->String("name"));
  if (!name) return InvalidArgument(custom->PathOf("name"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> input, custom->String("input"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> id, call.String("id"));
  jinja::Dict arguments;
  arguments.Set(std::string(kCustomToolInput), jinja::Value::String(std::string(input.value_or(""))));
  jinja::Dict function;
  function.Set("name", jinja::Value::String(std::string(*name)));
  function.Set("arguments", jinja::Value::Mapping(std::move(arguments)));
  jinja::Dict result;
  if (id) result.Set("id", jinja::Value::String(std::string(*id)));
  result.Set("type", jinja::Value::String("function"));
  result.Set("function", jinja::Value::Mapping(std::move(function)));
  return jinja::Value::Mapping(std::move(result));
}

Result<jinja::Value> ParseToolCall(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject call, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, call.String("type"));
  if (type == "custom") return ParseCustomCall(call);
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> function, call.Object("function"));
  if (!function) return InvalidArgument(call.PathOf("function"), "is missing");
  jinja::Dict result;
  for (const auto& [name, member] : call.members()) {
    if (name == "function") continue;
    ROOST_ASSIGN_OR_RETURN(jinja::Value value, TemplateValueOf(member, call.PathOf(name)));
    result.Set(name, std::move(value));
  }
  ROOST_ASSIGN_OR_RETURN(jinja::Value parsed, ParseFunction(*function));
  result.Set("function", std::move(parsed));
  return jinja::Value::Mapping(std::move(result));
}

Result<jinja::Value> ParseToolCalls(const JsonObject& message, const std::vector<JsonElement>& calls) {
  std::vector<jinja::Value> result;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value call,
                           ParseToolCall(calls[i], fmt::format("{}[{}]", message.PathOf("tool_calls"), i)));
    result.push_back(std::move(call));
  }
  return jinja::Value::List(std::move(result));
}

// A message's `function_call`, as a list of one call.
Result<jinja::Value> ParseLegacyCall(const JsonObject& function) {
  ROOST_ASSIGN_OR_RETURN(jinja::Value parsed, ParseFunction(function));
  jinja::Dict call;
  call.Set("id", jinja::Value::String(std::string(kLegacyCallId)));
  call.Set("type", jinja::Value::String("function"));
  call.Set("function", std::move(parsed));
  return jinja::Value::List({jinja::Value::Mapping(std::move(call))});
}

// ---- messages ----

Result<std::string_view> ParseRole(const JsonObject& message) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> role, message.String("role"));
  if (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    return InvalidArgument(message.PathOf("role"), "must be one of {}", fmt::join(kRoles, ", "));
  }
  return *role;
}

// Adds the marks of message number `index` to `marks`.
Result<void> AddMarks(const JsonObject& message, std::size_t index, MessageContent& content,
                      std::vector<ChatRequest::Mark>& marks) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<CacheBreakpoint> whole, BreakpointOf(message));
  if (whole) content.marks.push_back({*whole, std::nullopt, std::nullopt});
  for (ChatRequest::Mark& mark : content.marks) {
    mark.message = index;
    marks.push_back(mark);
  }
  return {};
}

bool IsTemplateMember(std::string_view name) {
  return name != "role" && name != "content" && name != "tool_calls" && name != "function_call" &&
         name != "cache_control" && name != "prompt_cache_breakpoint";
}

Result<jinja::Value> ParseMessage(JsonElement element, std::size_t index, std::string path,
                                  std::vector<ChatRequest::Mark>& marks) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject message, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::string_view role, ParseRole(message));
  ROOST_ASSIGN_OR_RETURN(MessageContent parts, ParseContent(message, role));
  ROOST_RETURN_IF_ERROR(AddMarks(message, index, parts, marks));
  std::optional<std::string>& content = parts.text;
  ROOST_ASSIGN_OR_RETURN(const auto tool_calls, message.Array("tool_calls"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> legacy_call, message.Object("function_call"));
  const bool has_legacy_call = legacy_call && role == "assistant";
  const bool has_calls = (tool_calls && !tool_calls->empty()) || has_legacy_call;
  const bool is_result = role == "tool" || role == "function";
  if (!content && is_result) content.emplace();  // a tool that says nothing
  if (!content && role != "assistant") return InvalidArgument(message.PathOf("content"), "is missing");
  // An answer without text, or one that was refused and says so in a member of its own.
  if (!content && !has_calls) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> refusal, message.String("refusal"));
    content = std::string(refusal.value_or(""));
  }
  jinja::Dict result;
  result.Set("role", jinja::Value::WrittenString(std::string(is_result ? "tool" : role)));
  result.Set("content", content ? jinja::Value::String(std::move(*content)) : jinja::Value::None());
  if (tool_calls && !tool_calls->empty()) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value calls, ParseToolCalls(message, *tool_calls));
    result.Set("tool_calls", std::move(calls));
  } else if (has_legacy_call) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value calls, ParseLegacyCall(*legacy_call));
    result.Set("tool_calls", std::move(calls));
  }
  if (role == "function") result.Set("tool_call_id", jinja::Value::String(std::string(kLegacyCallId)));
  if (!parts.reasoning.empty() && !message.Find("reasoning_content")) {
    result.Set("reasoning_content", jinja::Value::String(std::move(parts.reasoning)));
  }
  for (const auto& [name, member] : message.members()) {
    if (!IsTemplateMember(name)) continue;
    ROOST_ASSIGN_OR_RETURN(jinja::Value value, TemplateValueOf(member, message.PathOf(name)));
    result.Set(name, std::move(value));
  }
  return jinja::Value::Mapping(std::move(result));
}

// Mistral, DeepSeek and others mark an assistant's message that the answer goes on with.
bool BeginsAnswer(const JsonObject& message) {
  const auto is_true = [&message](std::string_view name) {
    const std::optional<JsonElement> element = message.Find(name);
    bool flag = false;
    return element && element->get(flag) == simdjson::SUCCESS && flag;
  };
  const std::optional<JsonElement> role = message.Find("role");
  std::string_view name;
  return role && role->get(name) == simdjson::SUCCESS && name == "assistant" &&
         (is_true("prefix") || is_true("partial"));
}

Result<void> ReadMessages(JsonElement element, const std::string& path, ChatRequest& request) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> messages, ElementsOf(element, path));
  if (messages.empty()) return InvalidArgument(path, "must hold at least one message");
  std::vector<jinja::Value> result;
  result.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value message,
                           ParseMessage(messages[i], i, fmt::format("{}[{}]", path, i), request.marks));
    result.push_back(std::move(message));
  }
  request.messages = jinja::Value::List(std::move(result));
  ROOST_ASSIGN_OR_RETURN(const JsonObject last, JsonObject::From(messages.back(), path));
  if (BeginsAnswer(last)) request.generation_prompt = ChatRequest::GenerationPrompt::kContinue;
  return {};
}

// ---- tools and the rest ----

// They come before those of messages, which were read first.
Result<void> AddToolMarks(JsonElement element, const std::string& path, ChatRequest& request) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> tools, ElementsOf(element, path));
  std::vector<ChatRequest::Mark> marks;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(tools[i], fmt::format("{}[{}]", path, i)));
    ROOST_ASSIGN_OR_RETURN(const std::optional<CacheBreakpoint> mark, BreakpointOf(tool));
    if (mark) marks.push_back({*mark, std::nullopt, std::nullopt});
  }
  request.marks.insert(request.marks.begin(), marks.begin(), marks.end());
  return {};
}

Result<void> ReadTools(JsonElement element, const std::string& path, ChatRequest& request) {
  ROOST_RETURN_IF_ERROR(AddToolMarks(element, path, request));
  ROOST_ASSIGN_OR_RETURN(request.tool_set.functions, ReadToolFunctions(element, path));
  if (request.tool_set.functions.empty()) return {};
  ROOST_ASSIGN_OR_RETURN(std::vector<jinja::Value> tools, TemplateTools(element, path, request.tool_set.functions));
  request.tools = jinja::Value::List(std::move(tools));
  return {};
}

Result<void> ReadChatToolChoice(JsonElement element, const std::string& path, ChatRequest& request) {
  std::vector<std::size_t> kept;
  ROOST_RETURN_IF_ERROR(ReadToolChoice(element, path, request.tool_set, kept));
  std::vector<jinja::Value> allowed;
  allowed.reserve(kept.size());
  for (const std::size_t place : kept) allowed.push_back(request.tools.AsSequence().items[place]);
  if (!allowed.empty()) request.allowed_tools = jinja::Value::List(std::move(allowed));
  if (request.tool_set.use == ToolUse::kNone) request.tools = jinja::Value::None();
  return {};
}

// Checks for members about calls, and about choices that are thrown away, in requests without functions.
Result<void> CheckFunctionCall(JsonElement element, const std::string& path, ChatRequest&) {
  std::string_view word;
  if (element.get(word) == simdjson::SUCCESS && (word == "auto" || word == "none")) return {};
  return InvalidArgument(path, "is not supported: use tool_choice");
}
Result<void> CheckBestOf(JsonElement element, const std::string& path, ChatRequest&) {
  ROOST_RETURN_IF_ERROR(IntegerOf(element, path, 1, 1));
  return {};
}
Result<void> CheckModalities(JsonElement element, const std::string& path, ChatRequest&) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> kinds, ElementsOf(element, path));
  for (const JsonElement kind : kinds) {
    std::string_view word;
    if (kind.get(word) != simdjson::SUCCESS || word != "text") {
      return InvalidArgument(path, "must hold \"text\" alone: this server writes nothing else");
    }
  }
  return {};
}

Result<void> ReadDocuments(JsonElement element, const std::string& path, ChatRequest& request) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> documents, ElementsOf(element, path));
  for (std::size_t i = 0; i < documents.size(); ++i) {
    ROOST_RETURN_IF_ERROR(JsonObject::From(documents[i], fmt::format("{}[{}]", path, i)));
  }
  if (documents.empty()) return {};
  ROOST_ASSIGN_OR_RETURN(request.documents, TemplateValueOf(element, path));
  return {};
}

Result<void> ReadTemplateVariables(JsonElement element, const std::string& path, ChatRequest& request) {
  ROOST_RETURN_IF_ERROR(JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(request.template_variables, TemplateValueOf(element, path));
  return {};
}

// ---- the table ----

constexpr std::string_view kMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"type":"object","required":["role"],"properties":{)"
    R"("role":{"enum":["system","developer","user","assistant","tool","function"]},)"
    R"("content":{"oneOf":[{"type":["string","null"]},{"type":"array","items":{"type":"object",)"
    R"("required":["type"],"properties":{"type":{"enum":["text","refusal","input_text","output_text",)"
    R"("thinking","redacted_thinking"]},"text":{"type":"string"},"refusal":{"type":"string"},)"
    R"("cache_control":{"type":["object","null"],"required":["type"],"properties":{"type":{"const":"ephemeral"},)"
    R"("ttl":{"enum":["5m","1h",null]}}},"prompt_cache_breakpoint":{"type":["object","null"],"required":["mode"],)"
    R"("properties":{"mode":{"const":"explicit"},"ttl":{"enum":["30m","12h",null]}}}}}}]},)"
    R"("tool_calls":{"type":["array","null"],"items":{"type":"object","properties":{)"
    R"("id":{"type":"string"},"type":{"enum":["function","custom"]},"function":{"type":"object","required":["name"],)"
    R"("properties":{"name":{"type":"string"},"arguments":{}}},"custom":{"type":"object","required":["name"],)"
    R"("properties":{"name":{"type":"string"},"input":{"type":"string"}}}}}}}}})";
constexpr std::string_view kToolsSchema =
    R"({"type":"array","items":{"type":"object","required":["type"],"properties":{)"
    R"("type":{"enum":["function","custom"]},"function":{"type":"object","required":["name"],"properties":{)"
    R"("name":{"type":"string","minLength":1},"parameters":{"type":["object","null"]},)"
    R"("strict":{"type":["boolean","null"]}}},"custom":{"type":"object","required":["name"],"properties":{)"
    R"("name":{"type":"string","minLength":1},"description":{"type":["string","null"]},)"
    R"("format":{"type":["object","null"],"required":["type"],"properties":{"type":{"enum":["text","grammar"]},)"
    R"("grammar":{"type":"object","required":["syntax","definition"],"properties":{)"
    R"("syntax":{"enum":["lark","regex"]},"definition":{"type":"string"}}}}}}}}}})";
constexpr std::string_view kToolChoiceSchema =
    R"({"oneOf":[{"enum":["auto","none","required"]},{"type":"object","required":["type"],"properties":{)"
    R"("type":{"enum":["function","custom","allowed_tools"]},"function":{"type":"object","required":["name"],)"
    R"("properties":{"name":{"type":"string"}}},"custom":{"type":"object","required":["name"],"properties":{)"
    R"("name":{"type":"string"}}},"allowed_tools":{"type":"object","required":["mode","tools"],"properties":{)"
    R"("mode":{"enum":["auto","required"]},"tools":{"type":"array","minItems":1,"items":{"type":"object"}}}}}}]})";
constexpr std::string_view kDocumentsSchema = R"({"type":"array","items":{"type":"object"}})";
constexpr std::string_view kTemplateVariablesSchema = R"({"type":"object"})";

constexpr auto kChatFields = std::to_array<RequestField<ChatRequest>>({
    {"messages", "The conversation so far.", Own<ChatRequest>{kMessagesSchema, &ReadMessages}},
    {"tools", "Functions and custom tools that the model may call.", Own<ChatRequest>{kToolsSchema, &ReadTools}},
    // After the tools, because it names one of them or disables them.
    {"tool_choice", "Whether the model may call tools, or must.",
     Own<ChatRequest>{kToolChoiceSchema, &ReadChatToolChoice}},
    {"parallel_tool_calls", "False: an answer with forced or strict calls has only one.",
     Flag<ChatRequest>{
         [](ChatRequest& r, bool v) { r.tool_set.count = v ? ToolCallCount::kMany : ToolCallCount::kOne; }}},
    {"documents", "Documents, for templates that use them.", Own<ChatRequest>{kDocumentsSchema, &ReadDocuments}},
    {"chat_template_kwargs", "Variables for the chat template.",
     Own<ChatRequest>{kTemplateVariablesSchema, &ReadTemplateVariables}},
    {"add_generation_prompt", "False: the prompt ends with the last message.",
     Flag<ChatRequest>{[](ChatRequest& r, bool v) {
       r.generation_prompt = v ? ChatRequest::GenerationPrompt::kAdd : ChatRequest::GenerationPrompt::kOmit;
     }}},
    {"reasoning_effort", "How much the model reasons, for templates that use it.",
     Text<ChatRequest>{1, 32, [](ChatRequest& r, std::string_view v) { r.reasoning_effort = v; }}},
    {"separate_reasoning", "False: reasoning stays in the content, as the model wrote it.",
     Flag<ChatRequest>{[](ChatRequest& r, bool v) {
       r.reasoning = v ? ChatRequest::Reasoning::kSeparate : ChatRequest::Reasoning::kInContent;
     }}},
    // After add_generation_prompt.
    {"continue_final_message", "The answer continues the last message. Not together with add_generation_prompt.",
     Flag<ChatRequest>{[](ChatRequest& r, bool v) {
       if (v) r.generation_prompt = ChatRequest::GenerationPrompt::kContinue;
     }}},
    {"best_of", "Must be 1: see n.", Own<ChatRequest>{R"({"const":1})", &CheckBestOf}},
    {"modalities", "Must be text.", Own<ChatRequest>{R"({"type":"array","items":{"const":"text"}})", &CheckModalities}},
    {"audio", "Not supported.", Refused{}},
    {"web_search_options", "Not supported: this server runs no tools of its own.", Refused{}},
    {"logprobs", "Log probabilities of the answer's tokens.",
     Flag<ChatRequest>{[](ChatRequest& r, bool v) { r.logprobs = v ? Logprobs::kTell : Logprobs::kOmit; }}},
    {"top_logprobs", "How many of the likeliest tokens to report for each token; needs logprobs.",
     Whole<ChatRequest>{0, wire::kMaxTopLogprobs,
                        [](ChatRequest& r, std::int64_t v) { r.top_logprobs = static_cast<std::uint32_t>(v); }}},
    {"functions", "Not supported: use tools.", Refused{Refused::Accepts::kEmpty}},
    {"function_call", "Not supported: use tool_choice.",
     Own<ChatRequest>{R"({"enum":["auto","none"]})", &CheckFunctionCall}},
    {"chat_template", "Not supported: the model's own template is used.", Refused{}},
});

}  // namespace

std::span<const RequestField<ChatRequest>> ChatFieldTable() { return kChatFields; }

Result<ChatRequest> ParseChatRequest(const JsonObject& body) {
  ChatRequest request;
  ROOST_ASSIGN_OR_RETURN(request.sampling, ParseSamplingFields(body));
  ROOST_RETURN_IF_ERROR(CheckWantsAnswer(request.sampling));
  ROOST_RETURN_IF_ERROR(ReadFields(body, ChatFieldTable(), request));
  request.sampling.unknown_field_count = CountUnknown(body, SamplingFieldTable(), CacheFieldTable(), ChatFieldTable());
  if (!body.Find("messages")) return InvalidArgument("messages", "is missing");
  std::vector<CacheBreakpoint> breakpoints;
  for (const ChatRequest::Mark& mark : request.marks) breakpoints.push_back(mark.breakpoint);
  ROOST_RETURN_IF_ERROR(CheckCacheControl(request.sampling.cache, breakpoints));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> adds_prompt, body.Bool("add_generation_prompt"));
  if (adds_prompt.value_or(false) && request.generation_prompt == ChatRequest::GenerationPrompt::kContinue) {
    return InvalidArgument("continue_final_message",
                           "can not be given together with add_generation_prompt: leave one of them out");
  }
  ROOST_RETURN_IF_ERROR(SetConstraint(ForcedCallConstraint(request.tool_set), request.sampling.generate.constraint));
  if (request.logprobs == Logprobs::kTell) {
    request.sampling.generate.output_logprobs = request.top_logprobs.value_or(0);
  } else if (request.top_logprobs.value_or(0) > 0) {
    return InvalidArgument("top_logprobs", "needs logprobs to be true");
  }
  return request;
}

}  // namespace roost::router

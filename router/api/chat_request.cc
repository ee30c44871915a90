#include "router/api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/json.h"

namespace roost::router {
namespace {

using Accepts = NeutralField::Accepts;

constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};

constexpr std::array kNeutralOfChats{
    NeutralField{"logprobs", Accepts::kFalse},        NeutralField{"top_logprobs", Accepts::kZero},
    NeutralField{"functions", Accepts::kEmpty},       NeutralField{"function_call", Accepts::kNothing},
    NeutralField{"chat_template", Accepts::kNothing}, NeutralField{"continue_final_message", Accepts::kFalse},
};

// ---- content ----

Result<void> AppendPart(JsonElement element, std::string path, std::string& text) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject part, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, part.String("type"));
  if (type != "text") {
    return InvalidArgument(part.PathOf("type"), "must be \"text\": this server takes no other kind of content");
  }
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> part_text, part.String("text"));
  if (!part_text) return InvalidArgument(part.PathOf("text"), "is missing");
  text += *part_text;
  return {};
}

// A string, or an array of text parts; nothing when absent or null.
Result<std::optional<std::string>> ParseContent(const JsonObject& message) {
  const std::optional<JsonElement> content = message.Find("content");
  if (!content) return std::optional<std::string>();
  const std::string path = message.PathOf("content");
  if (content->is_string()) {
    ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*content, path));
    return std::optional<std::string>(text);
  }
  if (!content->is_array()) {
    return InvalidArgument(path, "must be a string or an array of text parts, not {}", TypeName(*content));
  }
  std::string text;
  std::size_t i = 0;
  for (const JsonElement part : simdjson::dom::array(*content)) {
    ROOST_RETURN_IF_ERROR(AppendPart(part, fmt::format("{}[{}]", path, i++), text));
  }
  return std::optional<std::string>(std::move(text));
}

// ---- tool calls of earlier assistant messages ----

Result<jinja::Value> ParseArguments(const JsonObject& function) {
  const std::string path = function.PathOf("arguments");
  const std::optional<JsonElement> element = function.Find("arguments");
  if (!element) return jinja::Value::Mapping({});
  if (!element->is_string()) return TemplateValueOf(*element, path);
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*element, path));
  if (text.empty()) return jinja::Value::Mapping({});
  Result<jinja::Value> value = jinja::FromJson(text, path);
  if (!value.ok() || !value->is(jinja::Kind::kDict)) return InvalidArgument(path, "must be a JSON object in a string");
  return value;
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

Result<jinja::Value> ParseToolCall(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject call, JsonObject::From(element, std::move(path)));
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

// ---- messages ----

Result<std::string_view> ParseRole(const JsonObject& message) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> role, message.String("role"));
  if (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    return InvalidArgument(message.PathOf("role"), "must be one of {}", fmt::join(kRoles, ", "));
  }
  return *role;
}

Result<jinja::Value> ParseMessage(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject message, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::string_view role, ParseRole(message));
  ROOST_ASSIGN_OR_RETURN(std::optional<std::string> content, ParseContent(message));
  ROOST_ASSIGN_OR_RETURN(const auto tool_calls, message.Array("tool_calls"));
  if (!content && !(role == "assistant" && tool_calls && !tool_calls->empty())) {
    return InvalidArgument(message.PathOf("content"), "is missing");
  }
  jinja::Dict result;
  result.Set("role", jinja::Value::String(std::string(role)));
  result.Set("content", content ? jinja::Value::String(std::move(*content)) : jinja::Value::None());
  if (tool_calls && !tool_calls->empty()) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value calls, ParseToolCalls(message, *tool_calls));
    result.Set("tool_calls", std::move(calls));
  }
  for (const auto& [name, member] : message.members()) {
    if (name == "role" || name == "content" || name == "tool_calls") continue;
    ROOST_ASSIGN_OR_RETURN(jinja::Value value, TemplateValueOf(member, message.PathOf(name)));
    result.Set(name, std::move(value));
  }
  return jinja::Value::Mapping(std::move(result));
}

Result<jinja::Value> ParseMessages(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const auto messages, body.Array("messages"));
  if (!messages || messages->empty()) return InvalidArgument("messages", "must hold at least one message");
  std::vector<jinja::Value> result;
  result.reserve(messages->size());
  for (std::size_t i = 0; i < messages->size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(jinja::Value message, ParseMessage((*messages)[i], fmt::format("messages[{}]", i)));
    result.push_back(std::move(message));
  }
  return jinja::Value::List(std::move(result));
}

// ---- tools and the rest ----

Result<void> CheckTool(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, tool.String("type"));
  if (type != "function") return InvalidArgument(tool.PathOf("type"), "must be \"function\"");
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> function, tool.Object("function"));
  if (!function) return InvalidArgument(tool.PathOf("function"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, function->String("name"));
  if (!name || name->empty()) return InvalidArgument(function->PathOf("name"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> parameters, function->Object("parameters"));
  return {};
}

enum class ToolUse { kAuto, kNone };

Result<ToolUse> ParseToolChoice(const JsonObject& body) {
  const std::optional<JsonElement> choice = body.Find("tool_choice");
  if (!choice) return ToolUse::kAuto;
  std::string_view text;
  if (choice->get(text) == simdjson::SUCCESS && text == "auto") return ToolUse::kAuto;
  if (choice->get(text) == simdjson::SUCCESS && text == "none") return ToolUse::kNone;
  return InvalidArgument("tool_choice", "must be \"auto\" or \"none\": this server can not force a tool call");
}

Result<jinja::Value> ParseTools(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const auto tools, body.Array("tools"));
  ROOST_ASSIGN_OR_RETURN(const ToolUse use, ParseToolChoice(body));
  if (!tools || tools->empty()) return jinja::Value::None();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    ROOST_RETURN_IF_ERROR(CheckTool((*tools)[i], fmt::format("tools[{}]", i)));
  }
  if (use == ToolUse::kNone) return jinja::Value::None();
  return TemplateValueOf(*body.Find("tools"), "tools");
}

Result<jinja::Value> ParseDocuments(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const auto documents, body.Array("documents"));
  if (!documents || documents->empty()) return jinja::Value::None();
  for (std::size_t i = 0; i < documents->size(); ++i) {
    ROOST_RETURN_IF_ERROR(JsonObject::From((*documents)[i], fmt::format("documents[{}]", i)));
  }
  return TemplateValueOf(*body.Find("documents"), "documents");
}

Result<jinja::Value> ParseTemplateVariables(const JsonObject& body) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> variables, body.Object("chat_template_kwargs"));
  if (!variables) return jinja::Value::Mapping({});
  return TemplateValueOf(*body.Find("chat_template_kwargs"), "chat_template_kwargs");
}

}  // namespace

Result<ChatRequest> ParseChatRequest(const JsonObject& body) {
  ChatRequest request;
  ROOST_ASSIGN_OR_RETURN(request.sampling, ParseSamplingFields(body));
  ROOST_RETURN_IF_ERROR(CheckNeutralFields(body, kNeutralOfChats));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> add_prompt, body.Bool("add_generation_prompt"));
  if (!add_prompt.value_or(true)) request.generation_prompt = ChatRequest::GenerationPrompt::kOmit;
  ROOST_ASSIGN_OR_RETURN(request.tools, ParseTools(body));
  ROOST_ASSIGN_OR_RETURN(request.documents, ParseDocuments(body));
  ROOST_ASSIGN_OR_RETURN(request.template_variables, ParseTemplateVariables(body));
  ROOST_ASSIGN_OR_RETURN(request.messages, ParseMessages(body));
  return request;
}

}  // namespace roost::router

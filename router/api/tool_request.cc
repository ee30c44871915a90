#include "router/api/tool_request.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/json_writer.h"
#include "common/grammar/constraint_rules.h"

namespace roost::router {
namespace {

Result<std::vector<std::string>> TextParametersOf(const JsonObject& parameters) {
  std::vector<std::string> names;
  const std::optional<JsonElement> element = parameters.Find("properties");
  simdjson::dom::object properties;
  if (!element || element->get(properties) != simdjson::SUCCESS) return names;
  for (const auto& [name, schema] : properties) {
    std::string_view type;
    if (schema["type"].get(type) == simdjson::SUCCESS && type == "string") names.emplace_back(name);
  }
  return names;
}

Result<ToolFunction> ReadToolFunction(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, tool.String("type"));
  if (type != "function") return InvalidArgument(tool.PathOf("type"), "must be \"function\"");
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> function, tool.Object("function"));
  if (!function) return InvalidArgument(tool.PathOf("function"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, function->String("name"));
  if (!name || name->empty()) return InvalidArgument(function->PathOf("name"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> parameters, function->Object("parameters"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> strict, function->Bool("strict"));
  ToolFunction result{.name = std::string(*name), .schema = {}, .text_parameters = {}};
  if (strict.value_or(false)) result.strictness = ToolStrictness::kStrict;
  if (!parameters) return result;
  result.schema = simdjson::minify(*function->Find("parameters"));
  ROOST_ASSIGN_OR_RETURN(result.text_parameters, TextParametersOf(*parameters));
  return result;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The schema of a function's parameters for its place within the list's schema: its references are made relative to the
// new root.
std::string PlacedSchema(const ToolFunction& function, std::size_t place) {
  if (function.schema.empty() || function.schema == "{}") return R"({"type":"object"})";
  std::string schema = function.schema;
  const std::string root = fmt::format(R"("$ref":"#/items/anyOf/{}/properties/arguments)", place);
  ReplaceAll(schema, R"("$ref":"#)", root);
  return schema;
}

void WriteCallSchema(const ToolFunction& function, std::size_t place, JsonWriter& json) {
  json.BeginObject().Key("type").String("object").Key("properties").BeginObject();
  json.Key("name").BeginObject().Key("const").String(function.name).EndObject();
  json.Key("arguments").Raw(PlacedSchema(function, place)).EndObject();
  json.Key("required").BeginArray().String("name").String("arguments").EndArray();
  json.Key("additionalProperties").Bool(false).EndObject();
}

}  // namespace

Result<std::vector<ToolFunction>> ReadToolFunctions(JsonElement element, const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> tools, ElementsOf(element, path));
  std::vector<ToolFunction> functions;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(ToolFunction function, ReadToolFunction(tools[i], fmt::format("{}[{}]", path, i)));
    functions.push_back(std::move(function));
  }
  return functions;
}

Result<void> ReadToolChoice(JsonElement element, const std::string& path, ToolSet& tools) {
  std::string_view word;
  if (element.get(word) == simdjson::SUCCESS) {
    if (word != "auto" && word != "none" && word != "required") {
      return InvalidArgument(path, "must be \"auto\", \"none\", \"required\" or the function to call");
    }
    if (word == "required" && tools.functions.empty()) return InvalidArgument(path, "needs tools to call");
    tools.use = word == "auto" ? ToolUse::kAuto : word == "none" ? ToolUse::kNone : ToolUse::kRequired;
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const JsonObject choice, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, choice.String("type"));
  if (type != "function") return InvalidArgument(choice.PathOf("type"), "must be \"function\"");
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> function, choice.Object("function"));
  if (!function) return InvalidArgument(choice.PathOf("function"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, function->String("name"));
  if (!name || tools.Find(*name) == nullptr) {
    return InvalidArgument(function->PathOf("name"), "must name one of the tools");
  }
  tools.use = ToolUse::kNamed;
  tools.named = *name;
  return {};
}

Result<std::optional<wire::Constraint>> ForcedCallConstraint(const ToolSet& tools) {
  if (!tools.is_forced()) return std::optional<wire::Constraint>();
  JsonWriter json;
  json.BeginObject().Key("type").String("array").Key("minItems").Number(1);
  const bool is_one = tools.count == ToolCallCount::kOne || tools.use == ToolUse::kNamed;
  json.Key("maxItems").Number(is_one ? 1 : kMaxForcedCalls);
  json.Key("items").BeginObject().Key("anyOf").BeginArray();
  std::size_t place = 0;
  for (const ToolFunction& function : tools.functions) {
    if (tools.use == ToolUse::kNamed && function.name != tools.named) continue;
    WriteCallSchema(function, place++, json);
  }
  json.EndArray().EndObject().EndObject();
  wire::Constraint constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = json.Take(), .field = "tools"};
  ROOST_RETURN_IF_ERROR(grammar::LibraryInputOf(constraint));
  return std::optional(std::move(constraint));
}

}  // namespace roost::router

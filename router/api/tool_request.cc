#include "router/api/tool_request.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/json_writer.h"
#include "common/grammar/constraint_rules.h"
#include "common/grammar/schema_place.h"

namespace roost::router {
namespace {

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
  ToolFunction result{.name = std::string(*name), .schema = {}};
  if (strict.value_or(false)) result.strictness = ToolStrictness::kStrict;
  if (!parameters) return result;
  result.schema = simdjson::minify(*function->Find("parameters"));
  return result;
}

std::string DefinitionOf(std::size_t place) { return fmt::format("f{}", place); }

// A call by its function's name; its arguments are a definition of the whole document, to which references in the
// function's schema lead now.
void WriteCallSchema(const ToolFunction& function, std::size_t place, JsonWriter& json) {
  json.BeginObject().Key("type").String("object").Key("properties").BeginObject();
  json.Key("name").BeginObject().Key("const").String(function.name).EndObject();
  json.Key("arguments").BeginObject().Key("$ref").String("#/$defs/" + DefinitionOf(place)).EndObject().EndObject();
  json.Key("required").BeginArray().String("name").String("arguments").EndArray();
  json.Key("additionalProperties").Bool(false).EndObject();
}

Result<void> WriteArguments(const ToolFunction& function, std::size_t place, JsonWriter& json) {
  const std::string name = DefinitionOf(place);
  json.Key(name);
  if (function.schema.empty() || function.schema == "{}") {
    json.BeginObject().Key("type").String("object").EndObject();
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const std::string schema, grammar::MovedSchema(function.schema, "#/$defs/" + name, "tools"));
  json.Raw(schema);
  return {};
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
  std::vector<const ToolFunction*> functions;
  for (const ToolFunction& function : tools.functions) {
    if (tools.use != ToolUse::kNamed || function.name == tools.named) functions.push_back(&function);
  }
  json.Key("items").BeginObject().Key("anyOf").BeginArray();
  for (std::size_t i = 0; i < functions.size(); ++i) WriteCallSchema(*functions[i], i, json);
  json.EndArray().EndObject();
  json.Key("$defs").BeginObject();
  for (std::size_t i = 0; i < functions.size(); ++i) ROOST_RETURN_IF_ERROR(WriteArguments(*functions[i], i, json));
  json.EndObject().EndObject();
  wire::Constraint constraint{.kind = wire::ConstraintKind::kJsonSchema, .text = json.Take(), .field = "tools"};
  ROOST_RETURN_IF_ERROR(grammar::LibraryInputOf(constraint));
  return std::optional(std::move(constraint));
}

}  // namespace roost::router

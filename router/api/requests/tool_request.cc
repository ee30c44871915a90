#include "router/api/requests/tool_request.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "common/base/json_writer.h"
#include "common/grammar/constraint_rules.h"
#include "common/grammar/lark_rules.h"
#include "common/grammar/regex_rules.h"
#include "common/grammar/schema_place.h"
#include "common/text/jinja/json.h"
#include "router/api/tool_parsers/call_constraint.h"
#include "router/api/tool_parsers/tool_names.h"

namespace roost::router {
namespace {

constexpr std::string_view kTextSchema =
    R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false})";

Result<TextGrammar> ReadGrammar(const JsonObject& format) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> grammar, format.Object("grammar"));
  if (!grammar) return InvalidArgument(format.PathOf("grammar"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> syntax, grammar->String("syntax"));
  if (syntax != "lark" && syntax != "regex") {
    return InvalidArgument(grammar->PathOf("syntax"), "must be \"lark\" or \"regex\"");
  }
  const std::string path = grammar->PathOf("definition");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> text, grammar->String("definition"));
  if (!text) return InvalidArgument(path, "is missing");
  constexpr grammar::RulePlace kPlace = grammar::RulePlace::kJsonString;
  if (syntax == "lark") {
    ROOST_RETURN_IF_ERROR(grammar::LarkRules(*text, kPlace, path));
    return TextGrammar{TextGrammar::Syntax::kLark, std::string(*text)};
  }
  ROOST_RETURN_IF_ERROR(grammar::RuleOfRegex(*text, grammar::RuleOptions{.place = kPlace}, path));
  return TextGrammar{TextGrammar::Syntax::kRegex, std::string(*text)};
}

// Absent: any text.
Result<std::optional<TextGrammar>> ReadCustomFormat(const JsonObject& custom) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> format, custom.Object("format"));
  if (!format) return std::optional<TextGrammar>();
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, format->String("type"));
  if (type == "text") return std::optional<TextGrammar>();
  if (type != "grammar") return InvalidArgument(format->PathOf("type"), "must be \"text\" or \"grammar\"");
  ROOST_ASSIGN_OR_RETURN(TextGrammar grammar, ReadGrammar(*format));
  return std::optional(std::move(grammar));
}

Result<std::string_view> ReadName(const JsonObject& tool) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, tool.String("name"));
  if (!name || name->empty()) return InvalidArgument(tool.PathOf("name"), "is missing");
  return *name;
}

Result<ToolFunction> ReadCustomTool(const JsonObject& custom) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, ReadName(custom));
  ROOST_RETURN_IF_ERROR(custom.String("description"));
  ToolFunction result{.name = std::string(name), .schema = std::string(kTextSchema), .input = ToolInput::kText};
  ROOST_ASSIGN_OR_RETURN(result.grammar, ReadCustomFormat(custom));
  return result;
}

// The member of the object that its type names.
Result<JsonObject> ReadTyped(const JsonObject& object) {
  ROOST_ASSIGN_OR_RETURN(std::optional<std::string_view> type, object.String("type"));
  if (!type && object.Find("function")) type = "function";  // as vLLM takes it
  if (type != "function" && type != "custom") {
    return InvalidArgument(object.PathOf("type"), "must be \"function\" or \"custom\"");
  }
  ROOST_ASSIGN_OR_RETURN(std::optional<JsonObject> member, object.Object(*type));
  if (!member) return InvalidArgument(object.PathOf(*type), "is missing");
  return *std::move(member);
}

bool IsCustom(const JsonObject& tool) {
  const Result<std::optional<std::string_view>> type = tool.String("type");
  return type.ok() && *type == "custom";
}

Result<ToolFunction> ReadToolFunction(JsonElement element, std::string path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(element, std::move(path)));
  ROOST_ASSIGN_OR_RETURN(const JsonObject function, ReadTyped(tool));
  if (IsCustom(tool)) return ReadCustomTool(function);
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, ReadName(function));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> parameters, function.Object("parameters"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<bool> strict, function.Bool("strict"));
  ToolFunction result{.name = std::string(name), .schema = {}};
  if (strict.value_or(false)) result.strictness = ToolStrictness::kStrict;
  if (!parameters) return result;
  result.schema = json::JsonText(*function.Find("parameters"));
  return result;
}

// A custom tool as the model sees it, with its grammar.
std::string FunctionFormOf(const JsonObject& custom, const ToolFunction& tool) {
  JsonWriter json;
  json.BeginObject().Key("type").String("function").Key("function").BeginObject().Key("name").String(tool.name);
  if (const std::optional<JsonElement> text = custom.Find("description")) {
    json.Key("description").Raw(json::JsonText(*text));
  }
  json.Key("parameters").BeginObject().Key("type").String("object").Key("properties").BeginObject();
  json.Key(kCustomToolInput).BeginObject().Key("type").String("string");
  if (tool.grammar && tool.grammar->syntax == TextGrammar::Syntax::kRegex) {
    json.Key("pattern").String(tool.grammar->text);
  } else if (tool.grammar) {
    json.Key("description").String(fmt::format("A text of this grammar (Lark):\n{}", tool.grammar->text));
  }
  json.EndObject().EndObject().Key("required").BeginArray().String(kCustomToolInput).EndArray();
  json.Key("additionalProperties").Bool(false).EndObject().EndObject().EndObject();
  return json.Take();
}

// The place of the tool that is named.
Result<std::size_t> ReadNamedTool(const JsonObject& choice, const ToolSet& tools) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject named, ReadTyped(choice));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> name, named.String("name"));
  for (std::size_t i = 0; name && i < tools.functions.size(); ++i) {
    if (tools.functions[i].name == *name) return i;
  }
  return InvalidArgument(named.PathOf("name"), "must name one of the tools");
}

Result<void> ReadAllowedTools(const JsonObject& choice, ToolSet& tools, std::vector<std::size_t>& kept) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> allowed, choice.Object("allowed_tools"));
  if (!allowed) return InvalidArgument(choice.PathOf("allowed_tools"), "is missing");
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> mode, allowed->String("mode"));
  if (mode != "auto" && mode != "required") {
    return InvalidArgument(allowed->PathOf("mode"), "must be \"auto\" or \"required\"");
  }
  const std::string path = allowed->PathOf("tools");
  ROOST_ASSIGN_OR_RETURN(const auto list, allowed->Array("tools"));
  if (!list || list->empty()) return InvalidArgument(path, "must name at least one tool");
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < list->size(); ++i) {
    ROOST_ASSIGN_OR_RETURN(const JsonObject each, JsonObject::From((*list)[i], fmt::format("{}[{}]", path, i)));
    ROOST_ASSIGN_OR_RETURN(const std::size_t place, ReadNamedTool(each, tools));
    places.insert(place);
  }
  std::vector<ToolFunction> functions;
  functions.reserve(places.size());
  for (const std::size_t place : places) functions.push_back(std::move(tools.functions[place]));
  if (functions.size() < tools.functions.size()) tools.choice_set = ToolChoiceSet::kSome;
  tools.functions = std::move(functions);
  tools.use = mode == "auto" ? ToolUse::kAuto : ToolUse::kRequired;
  kept.assign(places.begin(), places.end());
  return {};
}

// A mark for the cache says nothing to the model.
jinja::Value WithoutCacheMarks(const jinja::Value& tool) {
  const auto is_mark = [](const jinja::Value& key) {
    return key.is(jinja::Kind::kString) &&
           (key.AsString() == "cache_control" || key.AsString() == "prompt_cache_breakpoint");
  };
  const auto& entries = tool.AsDict().entries();
  if (std::none_of(entries.begin(), entries.end(), [&](const auto& entry) { return is_mark(entry.key); })) return tool;
  jinja::Dict kept;
  for (const jinja::Dict::Entry& entry : entries) {
    if (!is_mark(entry.key)) kept.Set(entry.key, entry.value);
  }
  return jinja::Value::Mapping(std::move(kept));
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

Result<std::vector<jinja::Value>> TemplateTools(JsonElement element, const std::string& path,
                                                const std::vector<ToolFunction>& functions) {
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonElement> tools, ElementsOf(element, path));
  std::vector<jinja::Value> values;
  for (std::size_t i = 0; i < tools.size() && i < functions.size(); ++i) {
    const std::string tool_path = fmt::format("{}[{}]", path, i);
    if (functions[i].input == ToolInput::kJson) {
      ROOST_ASSIGN_OR_RETURN(const jinja::Value value, TemplateValueOf(tools[i], tool_path));
      values.push_back(WithoutCacheMarks(value));
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(const JsonObject tool, JsonObject::From(tools[i], tool_path));
    ROOST_ASSIGN_OR_RETURN(const JsonObject custom, ReadTyped(tool));
    ROOST_ASSIGN_OR_RETURN(jinja::Value value, jinja::FromJson(FunctionFormOf(custom, functions[i]), tool_path));
    values.push_back(std::move(value));
  }
  return values;
}

Result<void> ReadToolChoice(JsonElement element, const std::string& path, ToolSet& tools,
                            std::vector<std::size_t>& kept) {
  std::string_view word;
  if (element.get(word) == simdjson::SUCCESS) {
    if (word != "auto" && word != "none" && word != "required") {
      return InvalidArgument(path, "must be \"auto\", \"none\", \"required\", the tool to call, or allowed tools");
    }
    if (word == "required" && tools.functions.empty()) return InvalidArgument(path, "needs tools to call");
    tools.use = word == "auto" ? ToolUse::kAuto : word == "none" ? ToolUse::kNone : ToolUse::kRequired;
    return {};
  }
  ROOST_ASSIGN_OR_RETURN(const JsonObject choice, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, choice.String("type"));
  if (type == "allowed_tools") return ReadAllowedTools(choice, tools, kept);
  if (type != "function" && type != "custom") {
    return InvalidArgument(choice.PathOf("type"), "must be \"function\", \"custom\" or \"allowed_tools\"");
  }
  ROOST_ASSIGN_OR_RETURN(const std::size_t place, ReadNamedTool(choice, tools));
  tools.use = ToolUse::kNamed;
  tools.named = tools.functions[place].name;
  return {};
}

Result<std::optional<wire::Constraint>> ForcedCallConstraint(const ToolSet& tools) {
  if (!tools.is_forced()) return std::optional<wire::Constraint>();
  if (tools.has_grammar()) return CallListConstraint(tools);
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

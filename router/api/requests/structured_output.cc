#include "router/api/requests/structured_output.h"

#include <array>
#include <utility>

#include "common/grammar/constraint_rules.h"

namespace roost::router {
namespace {

using wire::ConstraintKind;

ConstraintRead Checked(ConstraintKind kind, std::string text, const std::string& path) {
  wire::Constraint constraint{.kind = kind, .text = std::move(text), .field = path};
  ROOST_RETURN_IF_ERROR(grammar::LibraryInputOf(constraint));
  return std::optional(std::move(constraint));
}

ConstraintRead CheckedText(ConstraintKind kind, JsonElement element, const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  return Checked(kind, std::string(text), path);
}

// As OpenAI's clients write it, below json_schema, or beside the type.
ConstraintRead ReadJsonSchemaFormat(const JsonObject& format) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonObject> named, format.Object("json_schema"));
  if (const std::optional<JsonElement> schema = format.Find("schema"); schema && !named) {
    return ReadGuidedJson(*schema, format.PathOf("schema"));
  }
  if (!named) return InvalidArgument(format.PathOf("json_schema"), "is missing");
  ROOST_RETURN_IF_ERROR(named->String("name"));
  ROOST_RETURN_IF_ERROR(named->String("description"));
  ROOST_RETURN_IF_ERROR(named->Bool("strict"));
  const std::optional<JsonElement> schema = named->Find("schema");
  if (!schema) return InvalidArgument(named->PathOf("schema"), "is missing");
  return ReadGuidedJson(*schema, named->PathOf("schema"));
}

// Some clients and servers give a schema with it.
ConstraintRead ReadJsonObjectFormat(const JsonObject& format, const std::string& path) {
  if (format.Find("json_schema")) {
    return InvalidArgument(format.PathOf("json_schema"), "belongs to the type json_schema");
  }
  const std::optional<JsonElement> schema = format.Find("schema");
  return schema ? ReadGuidedJson(*schema, format.PathOf("schema")) : Checked(ConstraintKind::kJson, "", path);
}

}  // namespace

ConstraintRead ReadResponseFormatConstraint(JsonElement element, const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const JsonObject format, JsonObject::From(element, path));
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> type, format.String("type"));
  if (!type) return InvalidArgument(format.PathOf("type"), "is missing");
  // A constraint that stands where it would not be read is one that the client believes in.
  for (const char* const name : {"schema", "json_schema"}) {
    if (*type == "text" && format.Find(name)) {
      return InvalidArgument(format.PathOf(name), "stands beside the type text, which has no form");
    }
  }
  if (*type == "text") return std::optional<wire::Constraint>();
  if (*type == "json_object") return ReadJsonObjectFormat(format, path);
  if (*type == "json_schema") return ReadJsonSchemaFormat(format);
  return InvalidArgument(format.PathOf("type"), "must be text, json_object or json_schema, not '{}'", *type);
}

ConstraintRead ReadGuidedJson(JsonElement element, const std::string& path) {
  if (IsString(element)) return CheckedText(ConstraintKind::kJsonSchema, element, path);
  if (!element.is_object()) return InvalidArgument(path, "must be a JSON schema, not {}", TypeName(element));
  return Checked(ConstraintKind::kJsonSchema, json::JsonText(element), path);
}

ConstraintRead ReadGuidedRegex(JsonElement element, const std::string& path) {
  return CheckedText(ConstraintKind::kRegex, element, path);
}

ConstraintRead ReadGuidedChoice(JsonElement element, const std::string& path) {
  if (!element.is_array()) return InvalidArgument(path, "must be an array of strings, not {}", TypeName(element));
  return Checked(ConstraintKind::kChoice, json::JsonText(element), path);
}

ConstraintRead ReadGuidedGrammar(JsonElement element, const std::string& path) {
  return CheckedText(ConstraintKind::kGrammar, element, path);
}

// Clients write the empty text where none was chosen.
ConstraintRead ReadFormat(JsonElement element, const std::string& path) {
  if (element.is_object()) return ReadGuidedJson(element, path);
  if (!IsString(element)) return InvalidArgument(path, "must be json or a JSON schema, not {}", TypeName(element));
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(element, path));
  if (text.empty()) return std::optional<wire::Constraint>();
  if (text != "json") return InvalidArgument(path, "must be json or a JSON schema, not '{}'", text);
  return Checked(ConstraintKind::kJson, "", path);
}

ConstraintRead ReadStructuredOutputs(JsonElement element, const std::string& path) {
  using Read = ConstraintRead (*)(JsonElement, const std::string&);
  struct Form {
    std::string_view name;
    Read read;
  };
  const std::array forms{Form{"json", &ReadGuidedJson}, Form{"regex", &ReadGuidedRegex},
                         Form{"choice", &ReadGuidedChoice}, Form{"grammar", &ReadGuidedGrammar}};
  ROOST_ASSIGN_OR_RETURN(const JsonObject outputs, JsonObject::From(element, path));
  std::optional<wire::Constraint> constraint;
  for (const auto& [name, value] : outputs.members()) {
    if (name == "json_object") {
      ROOST_ASSIGN_OR_RETURN(const std::optional<bool> wanted, outputs.Bool(name));
      if (!wanted.value_or(false)) continue;
      ROOST_RETURN_IF_ERROR(SetConstraint(Checked(ConstraintKind::kJson, "", outputs.PathOf(name)), constraint));
      continue;
    }
    const Form* found = nullptr;
    for (const Form& form : forms) {
      if (form.name == name) found = &form;
    }
    bool flag = true;
    if (found == nullptr && value.get(flag) == simdjson::SUCCESS && !flag) continue;  // an option that is off
    if (found == nullptr) return InvalidArgument(outputs.PathOf(name), "'{}' is not supported", name);
    ROOST_RETURN_IF_ERROR(SetConstraint(found->read(value, outputs.PathOf(name)), constraint));
  }
  if (!constraint) return InvalidArgument(path, "must say one of json, regex, choice, grammar and json_object");
  return constraint;
}

Result<void> SetConstraint(ConstraintRead read, std::optional<wire::Constraint>& constraint) {
  if (!read.ok()) return std::move(read).error();
  if (!read->has_value()) return {};
  if (constraint) {
    return InvalidArgument((*read)->field, "can not be given together with '{}': an output has one form",
                           constraint->field);
  }
  constraint = *std::move(read);
  return {};
}

}  // namespace roost::router

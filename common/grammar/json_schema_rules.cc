#include "common/grammar/json_schema_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/json_writer.h"
#include "common/grammar/schema_place.h"
#include "common/grammar/schema_values.h"
#include "common/json/kept_numbers.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using Place = SchemaPlace;
using Strings = std::vector<std::string_view>;

constexpr std::array<std::string_view, 19> kAnnotations{
    "title",         "description", "default",      "examples", "example",    "deprecated",       "readOnly",
    "writeOnly",     "$comment",    "$schema",      "$id",      "id",         "contentMediaType", "contentEncoding",
    "discriminator", "xml",         "externalDocs", "strict",   "$vocabulary"};
constexpr std::array<std::string_view, 7> kTypes{"string", "integer", "number", "boolean", "null", "array", "object"};
constexpr std::array<std::string_view, 4> kOfString{"minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 5> kOfNumber{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                    "multipleOf"};
constexpr std::array<std::string_view, 5> kOfArray{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"};
constexpr std::array<std::string_view, 5> kOfObject{"properties", "required", "additionalProperties", "minProperties",
                                                    "maxProperties"};

template <typename Names>
bool Has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsAnnotation(std::string_view key) { return Has(kAnnotations, key) || key.starts_with("x-"); }

bool IsEmptyObject(element value) { return value.is_object() && simdjson::dom::object(value).size() == 0; }

// True if it is kept because 64 bits can not hold it.
bool IsKeptInteger(element value) {
  const auto kept = json::KeptNumber(value);
  return kept && kept->find_first_of(".eE") == std::string_view::npos;
}

std::string_view TypeOf(element value) {
  if (json::KeptNumber(value)) return IsKeptInteger(value) ? "integer" : "number";
  switch (value.type()) {
    case element_type::STRING: return "string";
    case element_type::INT64:
    case element_type::UINT64: return "integer";
    case element_type::DOUBLE: return "number";
    case element_type::BOOL: return "boolean";
    case element_type::NULL_VALUE: return "null";
    case element_type::ARRAY: return "array";
    case element_type::OBJECT: return "object";
  }
  return "";
}

class Rewriter {
 public:
  Rewriter(element root, const std::string& field)
      : root_(root), field_(field), values_(field, json_), references_(root, field), alternatives_(root) {}

  Result<CostedText> Run() {
    json_.BeginObject();
    ROOST_ASSIGN_OR_RETURN(const bool has_members, WriteMembers({root_, "#", 0}));
    if (has_members) ROOST_RETURN_IF_ERROR(WriteDefinitions());
    json_.EndObject();
    return CostedText{json_.Take(), values_.cost() + counted_cost_ + schema_count_ * kCostOfASchema};
  }

 private:
  // A few states of literals, and those of JSON's own values, which all schemas share.
  static constexpr CompileCost kCostOfASchema = 8;

  Result<void> Write(const Place& place) {
    json_.BeginObject();
    ROOST_RETURN_IF_ERROR(WriteMembers(place));
    json_.EndObject();
    return {};
  }

  // False for `true`, which is the empty schema.
  Result<bool> WriteMembers(const Place& place) {
    if (place.depth > kMaxSchemaDepth)
      return ComplainAt(place, field_, "more than {} schemas inside one another", kMaxSchemaDepth);
    if (++schema_count_ > kMaxSchemas)
      return ComplainAt(place, field_, "more than {} schemas in one document", kMaxSchemas);
    bool value = false;
    if (place.schema.get(value) == simdjson::SUCCESS) {
      if (!value) return ComplainAt(place, field_, "false allows no value at all");
      return false;
    }
    if (!place.schema.is_object())
      return ComplainAt(place, field_, "a schema is an object, not a {}", TypeOf(place.schema));
    for (const char* const key : {"$defs", "definitions"}) {
      const std::optional<element> found = place.Find(key);
      if (found && !found->is_object()) return ComplainAt(place, field_, "'{}' must be an object", key);
    }
    ROOST_RETURN_IF_ERROR(WriteBody(place));
    return true;
  }

  // The schemas that references name. Writing one may add others.
  Result<void> WriteDefinitions() {
    if (named_.empty()) return {};
    json_.Key("$defs").BeginObject();
    for (std::size_t i = 0; i < named_.size(); ++i) {
      const std::string uri = named_[i];
      json_.Key(NameOf(i));
      ROOST_RETURN_IF_ERROR(Write(*Resolve(root_, uri)));
    }
    json_.EndObject();
    return {};
  }

  static std::string NameOf(std::size_t index) { return fmt::format("r{}", index); }

  // One keyword decides the kind of schema; each kind then checks which keywords may stand beside it.
  Result<void> WriteBody(const Place& place) {
    if (place.Contains("$ref")) return WriteReference(place);
    if (place.Contains("const") || place.Contains("enum")) return WriteValues(place);
    for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
      if (place.Contains(key)) return WriteAlternatives(place, key);
    }
    return WriteTyped(place);
  }

  // Checks that only these keywords, definitions and annotations are present.
  Result<void> CheckAlone(const Place& place, const Strings& keywords) const {
    for (const auto member : simdjson::dom::object(place.schema)) {
      const std::string_view key = member.key;
      if (Has(keywords, key) || IsAnnotation(key) || key == "$defs" || key == "definitions") continue;
      return ComplainAt(place, field_, "'{}' beside '{}' is not supported", key, keywords.front());
    }
    return {};
  }

  Result<void> WriteReference(const Place& place) {
    ROOST_RETURN_IF_ERROR(CheckAlone(place, {"$ref"}));
    std::string_view uri;
    if (place.Find("$ref")->get(uri) != simdjson::SUCCESS) return ComplainAt(place, field_, "'$ref' must be a string");
    if (!Resolve(root_, uri)) {
      return ComplainAt(place, field_, "'$ref' to '{}' names no schema of this document, as #/$defs/NAME does", uri);
    }
    ROOST_RETURN_IF_ERROR(references_.Follow(place, uri));
    const auto [found, is_new] = index_of_.emplace(uri, named_.size());
    if (is_new) named_.emplace_back(uri);
    json_.Key("$ref").String("#/$defs/" + NameOf(found->second));
    return {};
  }

  // `type` is allowed beside the values, but adds nothing.
  Result<void> WriteValues(const Place& place) {
    const bool is_const = place.Contains("const");
    const char* const key = is_const ? "const" : "enum";
    ROOST_RETURN_IF_ERROR(CheckAlone(place, {key, "type"}));
    std::vector<element> values;
    if (is_const) {
      values.push_back(*place.Find("const"));
    } else {
      simdjson::dom::array list;
      if (place.Find("enum")->get(list) != simdjson::SUCCESS)
        return ComplainAt(place, field_, "'enum' must be an array");
      for (const element value : list) values.push_back(value);
      if (values.empty()) return ComplainAt(place, field_, "'enum' allows no value");
    }
    ROOST_ASSIGN_OR_RETURN(const Strings types, TypesOf(place));
    for (const element value : values) {
      const std::string_view type = TypeOf(value);
      const bool fits = types.empty() || Has(types, type) || (type == "integer" && Has(types, "number"));
      if (!fits) return ComplainAt(place, field_, "'type' does not allow every value of '{}'", key);
      if (HasLargeNumber(value)) return ComplainAt(place, field_, "'{}' has an integer beyond 64 bits", key);
    }
    json_.Key(key);
    json_.Raw(json::JsonText(*place.Find(key)));
    return {};
  }

  static bool HasLargeNumber(element value) {
    if (value.is_array()) {
      const simdjson::dom::array list(value);
      return std::any_of(list.begin(), list.end(), [](element each) { return HasLargeNumber(each); });
    }
    if (value.is_object()) {
      for (const auto member : simdjson::dom::object(value)) {
        if (HasLargeNumber(member.value)) return true;
      }
    }
    return IsKeptInteger(value) || (value.type() == element_type::UINT64 && !value.is_int64());
  }

  Result<void> WriteAlternatives(const Place& place, const char* key) {
    ROOST_RETURN_IF_ERROR(CheckAlone(place, {key}));
    simdjson::dom::array list;
    if (place.Find(key)->get(list) != simdjson::SUCCESS) return ComplainAt(place, field_, "'{}' must be an array", key);
    const std::size_t count = list.size();
    if (count == 0) return ComplainAt(place, field_, "'{}' has no schema", key);
    if (std::string_view(key) == "allOf" && count > 1)
      return ComplainAt(place, field_, "'allOf' of several schemas is not supported");
    std::vector<Place> places;
    for (const element each : list) places.push_back(place.Below(each, fmt::format("{}/{}", key, places.size())));
    // The library can tell it of some, but of none behind a reference.
    const bool is_any = std::string_view(key) == "oneOf" && alternatives_.ExcludeEachOther(places);
    json_.Key(is_any ? "anyOf" : key).BeginArray();
    for (const Place& each : places) ROOST_RETURN_IF_ERROR(Write(each));
    json_.EndArray();
    return {};
  }

  // Empty without `type`.
  Result<Strings> TypesOf(const Place& place) const {
    const std::optional<element> type = place.Find("type");
    if (!type) return Strings{};
    Strings types;
    std::string_view name;
    simdjson::dom::array list;
    if (type->get(name) == simdjson::SUCCESS) {
      types.push_back(name);
    } else if (type->get(list) == simdjson::SUCCESS) {
      for (const element each : list) {
        if (each.get(name) != simdjson::SUCCESS)
          return ComplainAt(place, field_, "'type' must be a string or an array of strings");
        types.push_back(name);
      }
    }
    if (types.empty()) return ComplainAt(place, field_, "'type' must be a string or an array of strings");
    for (const std::string_view each : types) {
      if (!Has(kTypes, each)) return ComplainAt(place, field_, "'type' has no '{}'", each);
    }
    return types;
  }

  // Without `type`, a keyword that only makes sense for an object or an array implies that type.
  Result<Strings> TypesMeant(const Place& place) const {
    ROOST_ASSIGN_OR_RETURN(Strings types, TypesOf(place));
    if (!types.empty()) return types;
    if (place.Contains("properties") || place.Contains("additionalProperties")) return Strings{"object"};
    if (place.Contains("items") || place.Contains("prefixItems")) return Strings{"array"};
    return Strings{};
  }

  // As zod writes it for a map of texts.
  static bool AllowsEveryName(element schema) {
    if (schema.is_bool()) return bool(schema);
    if (!schema.is_object()) return false;
    const simdjson::dom::object members(schema);
    return std::all_of(members.begin(), members.end(), [](const simdjson::dom::key_value_pair& member) {
      std::string_view type;
      return IsAnnotation(member.key) ||
             (member.key == "type" && member.value.get(type) == simdjson::SUCCESS && type == "string");
    });
  }

  Result<void> WriteTyped(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const Strings types, TypesMeant(place));
    for (const auto member : simdjson::dom::object(place.schema)) {
      const std::string_view key = member.key;
      if (key == "type" || IsAnnotation(key) || key == "$defs" || key == "definitions") continue;
      if (key == "propertyNames" && Has(types, "object") && AllowsEveryName(member.value)) continue;
      if (key == "nullable" && member.value.is_bool() && !bool(member.value)) continue;
      const bool is_known = Has(kOfString, key) || Has(kOfNumber, key) || Has(kOfArray, key) || Has(kOfObject, key);
      if (!is_known) return ComplainAt(place, field_, "'{}' is not supported", key);
      if (types.empty()) return ComplainAt(place, field_, "'{}' without 'type' is not supported", key);
    }
    if (types.empty()) return {};
    json_.Key("type");
    if (types.size() == 1) {
      json_.String(types.front());
    } else {
      json_.BeginArray();
      for (const std::string_view type : types) json_.String(type);
      json_.EndArray();
    }
    if (Has(types, "string")) ROOST_RETURN_IF_ERROR(values_.WriteString(place));
    const SchemaValues::NumberTypes numbers{.integer = Has(types, "integer"), .number = Has(types, "number")};
    if (numbers.integer || numbers.number) ROOST_RETURN_IF_ERROR(values_.WriteNumber(place, numbers));
    if (Has(types, "array")) ROOST_RETURN_IF_ERROR(WriteArray(place));
    if (Has(types, "object")) ROOST_RETURN_IF_ERROR(WriteObject(place));
    return {};
  }

  Result<void> WriteArray(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const SchemaValues::Counts counts, values_.CountsOf(place, "Items"));
    const auto [least, most] = counts;
    const std::optional<element> unique = place.Find("uniqueItems");
    if (unique && !(unique->is_bool() && !bool(*unique)))
      return ComplainAt(place, field_, "'uniqueItems' is not supported");
    if (least) json_.Key("minItems").Number(*least);
    if (most) json_.Key("maxItems").Number(*most);
    const std::optional<element> prefix = place.Find("prefixItems");
    std::size_t prefix_count = 0;
    if (prefix) {
      simdjson::dom::array list;
      if (prefix->get(list) != simdjson::SUCCESS) return ComplainAt(place, field_, "'prefixItems' must be an array");
      json_.Key("prefixItems").BeginArray();
      for (const element each : list) {
        ROOST_RETURN_IF_ERROR(Write(place.Below(each, fmt::format("prefixItems/{}", prefix_count++))));
      }
      json_.EndArray();
      if (most && *most < prefix_count)
        return ComplainAt(place, field_, "'maxItems' below the number of 'prefixItems' is not supported");
    }
    const std::optional<element> items = place.Find("items");
    const bool allows_more = items ? !(items->is_bool() && !bool(*items)) : prefix_count == 0;
    if (!allows_more && least && *least > prefix_count)
      return ComplainAt(place, field_, "'minItems' is more than there may be items");
    json_.Key("items");
    if (!allows_more) {
      json_.Bool(false);
      return {};
    }
    if (items) return Write(place.Below(*items, "items"));
    json_.BeginObject().EndObject();
    return {};
  }

  Result<void> WriteObject(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const SchemaValues::Counts counts, values_.CountsOf(place, "Properties"));
    const auto [least, most] = counts;
    ROOST_ASSIGN_OR_RETURN(const std::set<std::string_view> names, WriteProperties(place));
    ROOST_ASSIGN_OR_RETURN(const std::size_t required_count, WriteRequired(place, names));
    const std::optional<element> others = place.Find("additionalProperties");
    const bool forbids = others && others->is_bool() && !bool(*others);
    if (!names.empty()) {
      if (others && !others->is_bool() && !IsEmptyObject(*others)) {
        return ComplainAt(place, field_,
                          "'additionalProperties' beside 'properties' is supported as true or false alone");
      }
      if (least && *least > names.size())
        return ComplainAt(place, field_, "'minProperties' is more than there are 'properties'");
    } else if (least && *least > (forbids ? 0U : 1U)) {
      return ComplainAt(place, field_, "'minProperties' above 1 is supported with 'properties' alone");
    }
    if (most && *most < required_count)
      return ComplainAt(place, field_, "'maxProperties' is less than there are 'required'");
    // The library makes a rule for each property and each number of properties before it.
    if (least || most) counted_cost_ += names.size() * names.size();
    if (least) json_.Key("minProperties").Number(*least);
    if (most) json_.Key("maxProperties").Number(*most);
    json_.Key("additionalProperties");
    if (!names.empty() || forbids) {
      json_.Bool(false);
      return {};
    }
    if (others) return Write(place.Below(*others, "additionalProperties"));
    json_.BeginObject().EndObject();
    return {};
  }

  Result<std::set<std::string_view>> WriteProperties(const Place& place) {
    std::set<std::string_view> names;
    const std::optional<element> properties = place.Find("properties");
    if (!properties) return names;
    if (!properties->is_object()) return ComplainAt(place, field_, "'properties' must be an object");
    json_.Key("properties").BeginObject();
    for (const auto member : simdjson::dom::object(*properties)) {
      if (!names.insert(member.key).second) return ComplainAt(place, field_, "'properties' has '{}' twice", member.key);
      json_.Key(member.key);
      ROOST_RETURN_IF_ERROR(Write(place.Below(member.value, fmt::format("properties/{}", member.key))));
    }
    json_.EndObject();
    return names;
  }

  // Those that discriminators make required come first.
  Result<std::size_t> WriteRequired(const Place& place, const std::set<std::string_view>& names) {
    std::set<std::string_view> wanted = alternatives_.RequiredAt(place.path);
    const std::optional<element> required = place.Find("required");
    if (!required && wanted.empty()) return std::size_t{0};
    json_.Key("required").BeginArray();
    for (const std::string_view name : wanted) json_.String(name);
    simdjson::dom::array list;
    if (required && required->get(list) != simdjson::SUCCESS)
      return ComplainAt(place, field_, "'required' must be an array");
    const std::vector<element> more = required ? json::Elements(list) : std::vector<element>();
    for (const element each : more) {
      std::string_view name;
      if (each.get(name) != simdjson::SUCCESS) return ComplainAt(place, field_, "'required' must hold strings");
      if (!names.contains(name))
        return ComplainAt(place, field_, "'required' names '{}', which 'properties' does not have", name);
      if (wanted.insert(name).second) json_.String(name);
    }
    json_.EndArray();
    return wanted.size();
  }

  const element root_;
  const std::string& field_;
  JsonWriter json_;
  SchemaValues values_;
  ReferenceCheck references_;
  SchemaAlternatives alternatives_;
  std::vector<std::string> named_;  // the references, in the order of their names
  std::map<std::string, std::size_t, std::less<>> index_of_;
  CompileCost counted_cost_ = 0;
  std::size_t schema_count_ = 0;
};

}  // namespace

Result<CostedText> LibrarySchema(std::string_view document, const std::string& field) {
  const json::Document schema(document, json::Document::KeepNumbers{.max_depth = kMaxJsonDepth});
  if (!schema.ok()) return InvalidArgument(field, "the schema is not JSON: {}", schema.error());
  return Rewriter(schema.root(), field).Run();
}

}  // namespace roost::grammar

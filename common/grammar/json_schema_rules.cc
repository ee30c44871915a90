#include "common/grammar/json_schema_rules.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "common/grammar/regex_rules.h"
#include "common/grammar/schema_place.h"

namespace roost::grammar {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using Place = SchemaPlace;
using Strings = std::vector<std::string_view>;

constexpr double kMostInteger = 9007199254740992.0;  // 2^53
constexpr double kMostNumber = 1e9;                  // with six digits after the point
constexpr std::uint64_t kMostMultiple = 1024;
constexpr double kMostMultipleRange = 10'000;

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

std::optional<double> NumberOf(element value) {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string_view TypeOf(element value) {
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

// An exact pattern for formats that the library reads too widely: it would write days that no month has, and numbers
// with leading zeros. For e-mail addresses the library's own grammar is so ambiguous that a mask takes milliseconds.
// Empty: the library is exact.
std::string ExactPattern(std::string_view format) {
  const std::string date =
      "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
      "02-(0[1-9]|1[0-9]|2[0-8]))";
  const std::string number = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  if (format == "ipv4") return "^(" + number + "[.]){3}" + number + "$";
  const std::string labels = "[A-Za-z0-9]+(-[A-Za-z0-9]+)*";
  if (format == "email") return "^[A-Za-z0-9_+-]+([.][A-Za-z0-9_+-]+)*@" + labels + "([.]" + labels + ")+$";
  if (format == "date") return "^" + date + "$";
  if (format != "date-time") return "";
  return "^" + date + "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";
}

class Rewriter {
 public:
  Rewriter(element root, const std::string& field) : root_(root), field_(field) {}

  Result<std::string> Run() {
    ROOST_RETURN_IF_ERROR(Write({root_, "#", 0}));
    ROOST_RETURN_IF_ERROR(CheckReferences(root_, field_));
    return json_.Take();
  }

 private:
  template <typename... Args>
  Error Complain(const Place& place, fmt::format_string<Args...> format, Args&&... args) const {
    return ComplainAt(place, field_, fmt::format(format, std::forward<Args>(args)...));
  }

  Result<void> Write(const Place& place) {
    if (place.depth > kMaxSchemaDepth)
      return Complain(place, "more than {} schemas inside one another", kMaxSchemaDepth);
    if (++schema_count_ > kMaxSchemas) return Complain(place, "more than {} schemas in one document", kMaxSchemas);
    bool value = false;
    if (place.schema.get(value) == simdjson::SUCCESS) {
      if (!value) return Complain(place, "false allows no value at all");
      json_.BeginObject().EndObject();
      return {};
    }
    if (!place.schema.is_object()) return Complain(place, "a schema is an object, not a {}", TypeOf(place.schema));
    json_.BeginObject();
    ROOST_RETURN_IF_ERROR(WriteDefinitions(place));
    ROOST_RETURN_IF_ERROR(WriteBody(place));
    json_.EndObject();
    return {};
  }

  Result<void> WriteDefinitions(const Place& place) {
    for (const char* const key : {"$defs", "definitions"}) {
      const std::optional<element> found = place.Find(key);
      if (!found) continue;
      if (!found->is_object()) return Complain(place, "'{}' must be an object", key);
      json_.Key(key).BeginObject();
      for (const auto member : simdjson::dom::object(*found)) {
        json_.Key(member.key);
        ROOST_RETURN_IF_ERROR(Write(place.Below(member.value, fmt::format("{}/{}", key, member.key))));
      }
      json_.EndObject();
    }
    return {};
  }

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
      return Complain(place, "'{}' beside '{}' is not supported", key, keywords.front());
    }
    return {};
  }

  Result<void> WriteReference(const Place& place) {
    ROOST_RETURN_IF_ERROR(CheckAlone(place, {"$ref"}));
    std::string_view uri;
    if (place.Find("$ref")->get(uri) != simdjson::SUCCESS) return Complain(place, "'$ref' must be a string");
    if (!Resolve(root_, uri)) {
      return Complain(place, "'$ref' to '{}' is not supported: it must name a schema of this document, as #/$defs/NAME",
                      uri);
    }
    json_.Key("$ref").String(uri);
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
      if (place.Find("enum")->get(list) != simdjson::SUCCESS) return Complain(place, "'enum' must be an array");
      for (const element value : list) values.push_back(value);
      if (values.empty()) return Complain(place, "'enum' allows no value");
    }
    ROOST_ASSIGN_OR_RETURN(const Strings types, TypesOf(place));
    for (const element value : values) {
      const std::string_view type = TypeOf(value);
      const bool fits = types.empty() || Has(types, type) || (type == "integer" && Has(types, "number"));
      if (!fits) return Complain(place, "'type' does not allow every value of '{}'", key);
      if (HasLargeNumber(value)) return Complain(place, "'{}' has an integer beyond 64 bits", key);
    }
    json_.Key(key);
    json_.Raw(simdjson::minify(*place.Find(key)));
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
    return value.type() == element_type::UINT64 && !value.is_int64();
  }

  Result<void> WriteAlternatives(const Place& place, const char* key) {
    ROOST_RETURN_IF_ERROR(CheckAlone(place, {key}));
    simdjson::dom::array list;
    if (place.Find(key)->get(list) != simdjson::SUCCESS) return Complain(place, "'{}' must be an array", key);
    const std::size_t count = list.size();
    if (count == 0) return Complain(place, "'{}' has no schema", key);
    if (std::string_view(key) == "allOf" && count > 1)
      return Complain(place, "'allOf' of several schemas is not supported");
    json_.Key(key).BeginArray();
    std::size_t index = 0;
    for (const element each : list) {
      ROOST_RETURN_IF_ERROR(Write(place.Below(each, fmt::format("{}/{}", key, index++))));
    }
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
          return Complain(place, "'type' must be a string or an array of strings");
        types.push_back(name);
      }
    }
    if (types.empty()) return Complain(place, "'type' must be a string or an array of strings");
    for (const std::string_view each : types) {
      if (!Has(kTypes, each)) return Complain(place, "'type' has no '{}'", each);
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

  Result<void> WriteTyped(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const Strings types, TypesMeant(place));
    for (const auto member : simdjson::dom::object(place.schema)) {
      const std::string_view key = member.key;
      if (key == "type" || IsAnnotation(key) || key == "$defs" || key == "definitions") continue;
      if (key == "nullable" && member.value.is_bool() && !bool(member.value)) continue;
      const bool is_known = Has(kOfString, key) || Has(kOfNumber, key) || Has(kOfArray, key) || Has(kOfObject, key);
      if (!is_known) return Complain(place, "'{}' is not supported", key);
      if (types.empty()) return Complain(place, "'{}' without 'type' is not supported", key);
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
    if (Has(types, "string")) ROOST_RETURN_IF_ERROR(WriteString(place));
    if (Has(types, "integer") || Has(types, "number")) ROOST_RETURN_IF_ERROR(WriteNumber(place, types));
    if (Has(types, "array")) ROOST_RETURN_IF_ERROR(WriteArray(place));
    if (Has(types, "object")) ROOST_RETURN_IF_ERROR(WriteObject(place));
    return {};
  }

  // A whole number from 0 to kMaxSchemaCount; nothing when absent.
  Result<std::optional<std::uint64_t>> Count(const Place& place, const char* key) const {
    const std::optional<element> value = place.Find(key);
    if (!value) return std::optional<std::uint64_t>();
    const std::optional<double> number = NumberOf(*value);
    if (!number || *number != std::floor(*number) || *number < 0 || *number > static_cast<double>(kMaxSchemaCount)) {
      return Complain(place, "'{}' must be a whole number from 0 to {}", key, kMaxSchemaCount);
    }
    return std::optional<std::uint64_t>(static_cast<std::uint64_t>(*number));
  }

  Result<void> CheckOrder(const Place& place, std::optional<std::uint64_t> low, std::optional<std::uint64_t> high,
                          const char* what) const {
    if (low && high && *low > *high) return Complain(place, "the least and the most '{}' contradict each other", what);
    return {};
  }

  Result<void> WriteString(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> least, Count(place, "minLength"));
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> most, Count(place, "maxLength"));
    ROOST_RETURN_IF_ERROR(CheckOrder(place, least, most, "Length"));
    const std::optional<element> pattern = place.Find("pattern");
    const std::optional<element> format = place.Find("format");
    const bool has_length = least.value_or(0) > 0 || most;
    if ((pattern ? 1 : 0) + (format ? 1 : 0) + (has_length ? 1 : 0) > 1) {
      return Complain(place, "'{}' beside '{}' is not supported", pattern ? "pattern" : "format",
                      has_length ? "a length" : "format");
    }
    std::string_view text;
    if (format) {
      if (format->get(text) != simdjson::SUCCESS) return Complain(place, "'format' must be a string");
      if (!Has(kFormats, text))
        return Complain(place, "'format' of '{}' is not supported: {}", text, fmt::join(kFormats, ", "));
      const std::string exact = ExactPattern(text);
      json_.Key(exact.empty() ? "format" : "pattern").String(exact.empty() ? text : std::string_view(exact));
    } else if (pattern) {
      if (pattern->get(text) != simdjson::SUCCESS) return Complain(place, "'pattern' must be a string");
      Result<std::string> regex = LibraryRegex(text, RegexUse::kJsonPattern, field_);
      if (!regex.ok()) return Complain(place, "'pattern': {}", regex.error().message);
      json_.Key("pattern").String("^(" + *regex + ")$");
    } else if (has_length) {
      // The library's own length limits would allow control characters.
      const std::string bounds =
          most ? fmt::format("{{{},{}}}", least.value_or(0), *most) : fmt::format("{{{},}}", *least);
      if (most && *most == 0) {
        json_.Key("maxLength").Number(0);
      } else {
        json_.Key("pattern").String("^[^\\x00-\\x1f\\x22\\x5c]" + bounds + "$");
      }
    }
    return {};
  }

  Result<void> WriteNumber(const Place& place, const Strings& types) {
    const bool has_integer = Has(types, "integer");
    const bool has_number = Has(types, "number");
    std::optional<double> low;
    std::optional<double> high;
    for (const char* const key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const std::optional<element> value = place.Find(key);
      if (!value) continue;
      const std::optional<double> number = NumberOf(*value);
      if (!number) return Complain(place, "'{}' must be a number", key);
      if (has_integer && (*number != std::floor(*number) || std::abs(*number) > kMostInteger)) {
        return Complain(place, "'{}' of an integer must be a whole number of at most 53 bits", key);
      }
      const double millionths = *number * 1e6;
      if (has_number && (std::abs(*number) > kMostNumber ||
                         std::abs(millionths - std::round(millionths)) > 1e-9 * std::max(1.0, std::abs(millionths)))) {
        return Complain(place, "'{}' of a number must be at most 1e9 with six digits after the point", key);
      }
      std::optional<double>& bound = std::string_view(key).ends_with("inimum") ? low : high;
      bound = !bound ? *number : (&bound == &low ? std::max(*bound, *number) : std::min(*bound, *number));
      json_.Key(key);
      if (has_integer) {
        json_.Number(static_cast<std::int64_t>(*number));
      } else {
        json_.Number(*number);
      }
    }
    if (low && high && *low > *high) return Complain(place, "'minimum' and 'maximum' contradict each other");
    return WriteMultiple(place, low, high, has_number);
  }

  Result<void> WriteMultiple(const Place& place, std::optional<double> low, std::optional<double> high,
                             bool has_number) {
    const std::optional<element> value = place.Find("multipleOf");
    if (!value) return {};
    std::uint64_t multiple = 0;
    const bool is_good = value->get(multiple) == simdjson::SUCCESS && multiple > 0 && multiple <= kMostMultiple;
    if (has_number || !is_good) {
      return Complain(place, "'multipleOf' is supported for integers alone, and up to {}", kMostMultiple);
    }
    const bool is_bounded = low && high;
    if ((low || high) && (!is_bounded || *high - *low > kMostMultipleRange)) {
      return Complain(place, "'multipleOf' is supported without bounds or with both, at most {} apart",
                      kMostMultipleRange);
    }
    json_.Key("multipleOf").Number(multiple);
    return {};
  }

  Result<void> WriteArray(const Place& place) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> least, Count(place, "minItems"));
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> most, Count(place, "maxItems"));
    ROOST_RETURN_IF_ERROR(CheckOrder(place, least, most, "Items"));
    const std::optional<element> unique = place.Find("uniqueItems");
    if (unique && !(unique->is_bool() && !bool(*unique))) return Complain(place, "'uniqueItems' is not supported");
    if (least) json_.Key("minItems").Number(*least);
    if (most) json_.Key("maxItems").Number(*most);
    const std::optional<element> prefix = place.Find("prefixItems");
    std::size_t prefix_count = 0;
    if (prefix) {
      simdjson::dom::array list;
      if (prefix->get(list) != simdjson::SUCCESS) return Complain(place, "'prefixItems' must be an array");
      json_.Key("prefixItems").BeginArray();
      for (const element each : list) {
        ROOST_RETURN_IF_ERROR(Write(place.Below(each, fmt::format("prefixItems/{}", prefix_count++))));
      }
      json_.EndArray();
      if (most && *most < prefix_count)
        return Complain(place, "'maxItems' below the number of 'prefixItems' is not supported");
    }
    const std::optional<element> items = place.Find("items");
    const bool allows_more = items ? !(items->is_bool() && !bool(*items)) : prefix_count == 0;
    if (!allows_more && least && *least > prefix_count)
      return Complain(place, "'minItems' is more than there may be items");
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
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> least, Count(place, "minProperties"));
    ROOST_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> most, Count(place, "maxProperties"));
    ROOST_RETURN_IF_ERROR(CheckOrder(place, least, most, "Properties"));
    ROOST_ASSIGN_OR_RETURN(const std::set<std::string_view> names, WriteProperties(place));
    ROOST_ASSIGN_OR_RETURN(const std::size_t required_count, WriteRequired(place, names));
    const std::optional<element> others = place.Find("additionalProperties");
    const bool forbids = others && others->is_bool() && !bool(*others);
    if (!names.empty()) {
      if (others && !others->is_bool()) {
        return Complain(place, "'additionalProperties' beside 'properties' is supported as true or false alone");
      }
      if (least && *least > names.size()) return Complain(place, "'minProperties' is more than there are 'properties'");
    } else if (least && *least > (forbids ? 0U : 1U)) {
      return Complain(place, "'minProperties' above 1 is supported with 'properties' alone");
    }
    if (most && *most < required_count) return Complain(place, "'maxProperties' is less than there are 'required'");
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
    if (!properties->is_object()) return Complain(place, "'properties' must be an object");
    json_.Key("properties").BeginObject();
    for (const auto member : simdjson::dom::object(*properties)) {
      if (!names.insert(member.key).second) return Complain(place, "'properties' has '{}' twice", member.key);
      json_.Key(member.key);
      ROOST_RETURN_IF_ERROR(Write(place.Below(member.value, fmt::format("properties/{}", member.key))));
    }
    json_.EndObject();
    return names;
  }

  Result<std::size_t> WriteRequired(const Place& place, const std::set<std::string_view>& names) {
    const std::optional<element> required = place.Find("required");
    if (!required) return std::size_t{0};
    simdjson::dom::array list;
    if (required->get(list) != simdjson::SUCCESS) return Complain(place, "'required' must be an array");
    std::set<std::string_view> wanted;
    json_.Key("required").BeginArray();
    for (const element each : list) {
      std::string_view name;
      if (each.get(name) != simdjson::SUCCESS) return Complain(place, "'required' must hold strings");
      if (!names.contains(name))
        return Complain(place, "'required' names '{}', which 'properties' does not have", name);
      if (wanted.insert(name).second) json_.String(name);
    }
    json_.EndArray();
    return wanted.size();
  }

  const element root_;
  const std::string& field_;
  JsonWriter json_;
  std::size_t schema_count_ = 0;
};

}  // namespace

Result<std::string> LibrarySchema(std::string_view document, const std::string& field) {
  simdjson::dom::parser parser;
  constexpr std::size_t kMaxJsonDepth = 4 * kMaxSchemaDepth;
  if (parser.allocate(document.size() + simdjson::SIMDJSON_PADDING, kMaxJsonDepth) != simdjson::SUCCESS) {
    return InvalidArgument(field, "the schema is too large");
  }
  const auto parsed = parser.parse(document.data(), document.size());
  if (parsed.error() != simdjson::SUCCESS) {
    return InvalidArgument(field, "the schema is not JSON: {}", simdjson::error_message(parsed.error()));
  }
  return Rewriter(parsed.value_unsafe(), field).Run();
}

}  // namespace roost::grammar

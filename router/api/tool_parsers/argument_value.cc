#include "router/api/tool_parsers/argument_value.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/json_writer.h"
#include "common/grammar/schema_place.h"
#include "common/json/kept_numbers.h"
#include "router/api/tool_parsers/lenient_json.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

using simdjson::dom::element;
using Place = grammar::SchemaPlace;

constexpr std::size_t kMaxDepth = 16;  // references and alternatives inside one another

// The values that a schema allows for a text: as it stands, or as something else.
struct Allowed {
  bool string = false;   // this text, as a string
  bool strings = false;  // some strings
  bool null = false;
  bool boolean = false;
  bool integer = false;
  bool number = false;
  bool any = false;  // objects, arrays, or of a type that is not told: what is JSON is read as JSON
};

class Reader {
 public:
  Reader(element root, std::string_view text) : root_(root), text_(text) {}

  // The schema of a parameter, or of all that have no name of their own; nothing if there is none.
  [[nodiscard]] std::optional<element> Find(element schema, std::string_view name, std::size_t depth = 0) const {
    if (!schema.is_object() || depth > kMaxDepth) return std::nullopt;
    const Place place{schema, "", 0};
    const std::optional<element> properties = place.Find("properties");
    if (properties && properties->is_object()) {
      if (const std::optional<element> found = Place{*properties, "", 0}.Find(name)) return found;
    }
    std::optional<element> found;
    ForEachBelow(place, [&](element below) {
      if (!found) found = Find(below, name, depth + 1);
    });
    const std::optional<element> others = place.Find("additionalProperties");
    return !found && others && others->is_object() ? others : found;
  }

  void Add(element schema, Allowed& allowed, std::size_t depth = 0) const {
    if (!schema.is_object() || depth > kMaxDepth) return AddAny(allowed);
    const Place place{schema, "", 0};
    if (const auto nullable = place.Find("nullable"); nullable && nullable->is_bool() && bool(*nullable)) {
      AddOther("null", allowed);
    }
    // A type limits what stands below it, which often says no type.
    bool has_below = false;
    if (!place.Contains("type")) {
      ForEachBelow(place, [&](element below) {
        has_below = true;
        Add(below, allowed, depth + 1);
      });
    }
    if (has_below) return;
    if (const std::optional<element> value = place.Find("const")) return AddValue(*value, allowed);
    simdjson::dom::array values;
    if (const std::optional<element> list = place.Find("enum"); list && list->get(values) == simdjson::SUCCESS) {
      for (const element value : values) AddValue(value, allowed);
      return;
    }
    AddTypes(place, allowed);
  }

 private:
  // Calls `each` for the schema that a reference leads to, and for alternatives.
  template <typename Each>
  void ForEachBelow(const Place& place, const Each& each) const {
    std::string_view uri;
    if (const auto reference = place.Find("$ref"); reference && reference->get(uri) == simdjson::SUCCESS) {
      if (const std::optional<Place> target = grammar::Resolve(root_, uri)) each(target->schema);
    }
    for (const char* const key : {"anyOf", "oneOf", "allOf"}) {
      simdjson::dom::array list;
      const std::optional<element> found = place.Find(key);
      if (!found || found->get(list) != simdjson::SUCCESS) continue;
      for (const element below : list) each(below);
    }
  }

  // Without a type a schema allows anything, and what is JSON is read as JSON.
  static void AddAny(Allowed& allowed) { allowed.any = true; }

  // A schema with one of these and no type means a string.
  static bool HasKeywordOfStrings(const Place& place) {
    constexpr std::array<std::string_view, 5> kKeywords{"pattern", "minLength", "maxLength", "contentEncoding",
                                                        "contentMediaType"};
    return std::any_of(kKeywords.begin(), kKeywords.end(), [&place](auto keyword) { return place.Contains(keyword); });
  }

  void AddValue(element value, Allowed& allowed) const {
    if (const auto string = json::TextOf(value)) {
      allowed.strings = true;
      allowed.string = allowed.string || *string == text_;
    } else {
      const bool is_number = json::NumberOf(value).has_value();
      AddOther(value.is_null() ? "null" : value.is_bool() ? "boolean" : is_number ? "number" : "", allowed);
    }
  }

  static void AddOther(std::string_view type, Allowed& allowed) {
    bool* const known = type == "null"      ? &allowed.null
                        : type == "boolean" ? &allowed.boolean
                        : type == "integer" ? &allowed.integer
                        : type == "number"  ? &allowed.number
                                            : &allowed.any;
    *known = true;
  }

  static void AddTypes(const Place& place, Allowed& allowed) {
    const std::optional<element> type = place.Find("type");
    std::string_view name;
    simdjson::dom::array list;
    const auto add = [&allowed](std::string_view each) {
      if (each == "string") {
        allowed.string = allowed.strings = true;
      } else {
        AddOther(each, allowed);
      }
    };
    if (type && type->get(name) == simdjson::SUCCESS) return add(name);
    if (!type && HasKeywordOfStrings(place)) return add("string");
    if (!type || type->get(list) != simdjson::SUCCESS) return AddAny(allowed);
    for (const element each : list) {
      if (each.get(name) == simdjson::SUCCESS) add(name);
    }
  }

  const element root_;
  const std::string_view text_;
};

Allowed AllowedBy(std::string_view schema, std::string_view name, std::string_view text) {
  const Allowed anything{.any = true};
  if (schema.empty()) return anything;
  const json::Document document(schema, json::Document::KeepNumbers());
  if (!document.ok()) return anything;
  const element root = document.root();
  const Reader reader(root, text);
  const std::optional<element> parameter = reader.Find(root, name);
  if (!parameter) return anything;
  Allowed allowed;
  reader.Add(*parameter, allowed);
  return allowed;
}

bool IsWhole(std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() && value == std::floor(value);
}

// `json` is a value without spaces around it.
bool Allows(const Allowed& allowed, std::string_view json) {
  if (allowed.any) return true;
  switch (json.front()) {
    case 'n': return allowed.null;
    case 't':
    case 'f': return allowed.boolean;
    case '"':
    case '[':
    case '{': return false;
    default: return allowed.number || (allowed.integer && IsWhole(json));
  }
}

std::optional<std::string> ConstantOf(const Allowed& allowed, std::string_view text) {
  if (allowed.null && (text == "null" || text == "None")) return "null";
  if (allowed.boolean && (text == "true" || text == "True")) return "true";
  if (allowed.boolean && (text == "false" || text == "False")) return "false";
  return std::nullopt;
}

}  // namespace

bool HasParameters(std::string_view schema) {
  if (schema.empty()) return false;
  const json::Document document(schema, json::Document::KeepNumbers());
  const auto properties = json::At<json::Object>(document.root(), "/properties");
  return properties && properties->begin() != properties->end();
}

bool TakesText(std::string_view schema, std::string_view name) { return AllowedBy(schema, name, "").string; }

std::string ArgumentJson(std::string_view schema, std::string_view name, std::string_view text) {
  const Allowed allowed = AllowedBy(schema, name, text);
  const bool is_null = allowed.null && text == "null";
  if (is_null || !allowed.string) {
    if (std::optional<std::string> constant = ConstantOf(allowed, text)) return *std::move(constant);
    std::optional<std::string> json = CompactJson(text);
    // Lists and objects as Python writes them.
    const std::optional<std::string> lenient = json ? std::nullopt : JsonOfLenient(text);
    if (lenient && (lenient->starts_with('[') || lenient->starts_with('{'))) json = CompactJson(*lenient);
    if (json && Allows(allowed, *json)) return *std::move(json);
  }
  std::string string;
  AppendJsonString(text, string);
  return string;
}

}  // namespace roost::router

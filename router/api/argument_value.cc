#include "router/api/argument_value.h"

#include <simdjson.h>

#include <cstddef>
#include <optional>

#include "common/base/json_writer.h"
#include "common/grammar/schema_place.h"
#include "router/api/partial_text.h"

namespace roost::router {
namespace {

using simdjson::dom::element;
using Place = grammar::SchemaPlace;

constexpr std::size_t kMaxDepth = 16;  // references and alternatives inside one another

// The values that a schema allows for a text: as it stands, or as something else.
struct Allowed {
  bool string = false;   // this text, as a string
  bool strings = false;  // some strings
  bool others = false;   // values of other types
  bool null = false;
  bool boolean = false;
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
    bool has_below = false;
    ForEachBelow(place, [&](element below) {
      has_below = true;
      Add(below, allowed, depth + 1);
    });
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
  static void AddAny(Allowed& allowed) { allowed.others = true; }

  void AddValue(element value, Allowed& allowed) const {
    std::string_view string;
    if (value.get(string) == simdjson::SUCCESS) {
      allowed.strings = true;
      allowed.string = allowed.string || string == text_;
    } else {
      AddOther(value.is_null() ? "null" : value.is_bool() ? "boolean" : "", allowed);
    }
  }

  static void AddOther(std::string_view type, Allowed& allowed) {
    allowed.others = true;
    allowed.null = allowed.null || type == "null";
    allowed.boolean = allowed.boolean || type == "boolean";
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
    if (!type || type->get(list) != simdjson::SUCCESS) return AddAny(allowed);
    for (const element each : list) {
      if (each.get(name) == simdjson::SUCCESS) add(name);
    }
  }

  const element root_;
  const std::string_view text_;
};

Allowed AllowedBy(std::string_view schema, std::string_view name, std::string_view text) {
  const Allowed anything{.others = true};
  simdjson::dom::parser parser;
  element root;
  if (schema.empty() || parser.parse(schema.data(), schema.size()).get(root) != simdjson::SUCCESS) return anything;
  const Reader reader(root, text);
  const std::optional<element> parameter = reader.Find(root, name);
  if (!parameter) return anything;
  Allowed allowed;
  reader.Add(*parameter, allowed);
  return allowed;
}

std::optional<std::string> ConstantOf(const Allowed& allowed, std::string_view text) {
  if (allowed.null && (text == "null" || text == "None")) return "null";
  if (allowed.boolean && (text == "true" || text == "True")) return "true";
  if (allowed.boolean && (text == "false" || text == "False")) return "false";
  return std::nullopt;
}

}  // namespace

std::string ArgumentJson(std::string_view schema, std::string_view name, std::string_view text) {
  const Allowed allowed = AllowedBy(schema, name, text);
  const bool is_null = allowed.null && text == "null";
  if (is_null || (allowed.others && !allowed.string)) {
    if (std::optional<std::string> constant = ConstantOf(allowed, text)) return *std::move(constant);
    if (std::optional<std::string> json = CompactJson(text)) return *std::move(json);
  }
  std::string string;
  AppendJsonString(text, string);
  return string;
}

}  // namespace roost::router
